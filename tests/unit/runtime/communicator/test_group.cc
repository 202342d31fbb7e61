// Groups: several operations as one submission, messages in any order, several communicators driven
// by one thread.
#include <array>

#include "tests/unit/runtime/ranks.h"

namespace communicator_group_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Operation send(const std::vector<int>& data, int peer) {
  return {.collective = Collective::send_recv,
          .input = data.data(),
          .count = data.size(),
          .type = DataType::int32,
          .peer = peer};
}
Operation receive(std::vector<int>& data, int peer) {
  return {.collective = Collective::send_recv,
          .output = data.data(),
          .count = data.size(),
          .type = DataType::int32,
          .peer = peer};
}
std::vector<int> numbers(size_t count, int from) {
  std::vector<int> list(count);
  for (size_t i = 0; i < count; ++i) list[i] = from + int(i);
  return list;
}

// Everybody to everybody and oneself, two messages each of two sizes, receives first on odd ranks.
void exchange(Communicator& c, Stream& stream, Complaints& complaints,
              Communicator::Launch launch) {
  const int n = c.size(), me = c.rank();
  const auto size_of = [](int which) { return which == 0 ? size_t(100) : size_t(50000); };
  const auto value = [](int from, int to, int which) { return from * 1000 + to * 10 + which; };
  std::vector<std::vector<int>> out, in;
  for (int peer = 0; peer < n; ++peer)
    for (int which = 0; which < 2; ++which) {
      out.push_back(numbers(size_of(which), value(me, peer, which)));
      in.emplace_back(size_of(which), -1);
    }
  Group group;
  for (int half = 0; half < 2; ++half)
    for (int peer = 0; peer < n; ++peer)
      for (int which = 0; which < 2; ++which) {
        const size_t i = size_t(peer * 2 + which);
        const Operation op = (half == me % 2) ? send(out[i], peer) : receive(in[i], peer);
        complaints.add(me, c.start(op, stream, launch));
      }
  complaints.add(me, group.end());
  complaints.add(me, stream.synchronize());
  for (int peer = 0; peer < n; ++peer)
    for (int which = 0; which < 2; ++which)
      if (in[size_t(peer * 2 + which)] != numbers(size_of(which), value(peer, me, which)))
        return complaints.add(format("rank {}: message {} from {} is wrong", me, which, peer));
}

}  // namespace

TEST_CASE("grouped messages among all ranks, themselves included", "[group]") {
  for (const char* transport : {"", "shm", "net"})
    for (int n : {1, 2, 3, 5, 8}) {
      if (n == 1 && *transport != 0) continue;
      INFO(transport << " " << n);
      CommOptions options;
      options.transport = transport;
      CHECK(with_ranks(n, options, [](Communicator& c, Complaints& complaints) {
              Stream stream(c);
              for (int i = 0; i < 3; ++i)
                exchange(c, stream, complaints,
                         i == 1 ? Communicator::Launch::async : Communicator::Launch::blocking);
            }) == "");
    }
}

TEST_CASE("a message answered in a later group does not deadlock at its first use", "[group]") {
  CHECK(with_ranks(2, {}, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const auto out = numbers(200000, c.rank());
          std::vector<int> in(out.size());
          const auto alone = [&](const Operation& op) {
            complaints.add(c.rank(), c.start(op, stream, Communicator::Launch::blocking));
          };
          if (c.rank() == 0) {
            alone(send(out, 1));
            alone(receive(in, 1));
          } else {
            Group group;
            alone(receive(in, 0));
            alone(send(out, 0));
            complaints.add(c.rank(), group.end());
          }
          if (in != numbers(200000, 1 - c.rank())) complaints.add("wrong data");
        }) == "");
}

TEST_CASE("a group mixes collectives and messages; groups nest", "[group]") {
  CHECK(with_ranks(4, {}, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const int next = (c.rank() + 1) % 4, previous = (c.rank() + 3) % 4;
          std::vector<int> a(1000, 1), sum(1000), all(4000), in(70000);
          const auto out = numbers(70000, c.rank());
          for (int round = 0; round < 3; ++round) {
            Group outer;
            complaints.add(c.rank(), c.start({.collective = Collective::all_reduce,
                                              .input = a.data(),
                                              .output = sum.data(),
                                              .count = 1000,
                                              .type = DataType::int32},
                                             stream));
            complaints.add(c.rank(), c.start(send(out, next), stream));
            {
              Group inner;
              complaints.add(c.rank(), c.start({.collective = Collective::all_gather,
                                                .input = a.data(),
                                                .output = all.data(),
                                                .count = 1000,
                                                .type = DataType::int32},
                                               stream));
              complaints.add(c.rank(), inner.end());
            }
            complaints.add(c.rank(), c.start({.collective = Collective::barrier}, stream,
                                             Communicator::Launch::blocking));
            complaints.add(c.rank(), c.start(receive(in, previous), stream));
            if (!stream.idle()) complaints.add("something started before the group's end");
            complaints.add(c.rank(), outer.end());
            complaints.add(c.rank(), stream.synchronize());
            if (sum != std::vector<int>(1000, 4)) complaints.add("sum is wrong");
            if (all != std::vector<int>(4000, 1)) complaints.add("gather is wrong");
            if (in != numbers(70000, previous)) complaints.add("message is wrong");
            std::fill(in.begin(), in.end(), 0);
          }
        }) == "");
}

TEST_CASE("one thread drives several communicators", "[group]") {
  const Communicators job = start_job(4, {});
  std::vector<std::unique_ptr<Stream>> streams;
  for (const auto& c : job) streams.push_back(std::make_unique<Stream>(*c));
  for (int round = 0; round < 5; ++round) {
    std::vector<std::vector<float>> in, out;
    for (int r = 0; r < 4; ++r) {
      in.emplace_back(50000, float(r));
      out.emplace_back(50000, -1.f);
    }
    Group group;
    for (size_t r = 0; r < 4; ++r) {
      const Collective collective =
          round % 2 == 0 ? Collective::all_reduce : Collective::all_to_all;
      const uint64_t count = round % 2 == 0 ? 50000 : 12500;
      REQUIRE(job[r]->start(
          {.collective = collective,
           .input = in[r].data(),
           .output = out[r].data(),
           .count = count},
          *streams[r], round < 3 ? Communicator::Launch::blocking : Communicator::Launch::async));
    }
    REQUIRE(group.end());
    for (auto& s : streams) REQUIRE(s->synchronize());
    for (size_t r = 0; r < 4; ++r)
      for (size_t i = 0; i < 50000; ++i)
        REQUIRE(out[r][i] == (round % 2 == 0 ? 6.f : float(i / 12500)));
  }
  streams.clear();
  on_all(4, [&](int r) { (void)job[size_t(r)]->finalize(Deadline::after_seconds(60)); });
  for (const auto& c : job) CHECK(c->async_error());
}

TEST_CASE("a group with a wrong member starts nothing", "[group]") {
  CHECK(
      with_ranks(2, {}, [](Communicator& c, Complaints& complaints) {
        Stream stream(c), other(c);
        float x = 1, y = 0;
        {
          Group group;
          complaints.add(
              c.rank(),
              c.start({.collective = Collective::all_reduce, .input = &x, .output = &y, .count = 1},
                      stream));
          if (c.start({.collective = Collective::all_reduce, .count = 1}, stream))
            complaints.add("null buffers taken");
          std::vector<int> in(1);
          complaints.add(c.rank(), c.start(receive(in, c.rank()), other));
          const Status ended = group.end();
          if (ended || ended.error().message.find("itself") == std::string::npos)
            complaints.add("a receive from itself without a send was taken");
        }
        complaints.add(c.rank(), stream.synchronize());
        if (y != 0) complaints.add("half of a group ran");
      }) == "");
}

}  // namespace communicator_group_tests
