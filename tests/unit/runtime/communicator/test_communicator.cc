// Whole jobs of thread ranks: every collective on every transport, streams, start-up errors.
#include "runtime/communicator/communicator.h"

#include <array>

#include "kernels/algo/algorithms.h"
#include "tests/unit/runtime/ranks.h"

namespace communicator_communicator_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kMovers[] = {Collective::all_reduce,     Collective::all_gather,
                                  Collective::reduce_scatter, Collective::broadcast,
                                  Collective::reduce,         Collective::gather,
                                  Collective::scatter,        Collective::all_to_all};

void all_collectives(Communicator& c, Complaints& complaints, std::vector<uint64_t> counts) {
  Stream stream(c);
  for (const uint64_t count : counts)
    for (const Collective collective : kMovers)
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::all_to_all) continue;
        const std::string wrong =
            run_case(c, stream, {collective, count, c.size() - 1, in_place},
                     count % 2 == 0 ? Communicator::Launch::async : Communicator::Launch::blocking);
        if (!wrong.empty()) return complaints.add(wrong);
      }
  const Operation barrier{.collective = Collective::barrier};
  complaints.add(c.rank(), c.start(barrier, stream, Communicator::Launch::blocking));
}

}  // namespace

TEST_CASE("every collective, ranks 1 to 16, as threads", "[communicator]") {
  for (int n : {1, 2, 3, 4, 7, 8, 16}) {
    INFO(n << " ranks");
    CHECK(with_ranks(n, {}, [](Communicator& c, Complaints& complaints) {
            all_collectives(c, complaints, {0, 1, 5, 1000, 20001});
          }) == "");
  }
}

TEST_CASE("every collective over shared memory and over sockets", "[communicator]") {
  for (const char* transport : {"shm", "net"})
    for (int n : {2, 3, 4, 8}) {
      INFO(transport << ", " << n << " ranks");
      CommOptions options;
      options.transport = transport;
      options.net = "socket";
      options.algo = "^one-shot,two-shot";  // which need no links
      CHECK(with_ranks(n, options, [&](Communicator& c, Complaints& complaints) {
              all_collectives(c, complaints, {1, 1000, 70001});
              const std::string via = transport == std::string("shm") ? "SHM" : "NET/Socket";
              for (const auto& link : c.links())
                if (link.via.find(via) == std::string::npos) complaints.add("via " + link.via);
            }) == "");
    }
}

TEST_CASE("large buffers, several channels, every algorithm and protocol", "[communicator]") {
  CommOptions options;
  CHECK(with_ranks(4, options, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          for (const char* algo : {"ring", "tree", "tree-split"})
            for (const char* proto : {"simple", "ll"})
              for (int channels : {1, 3}) {
                complaints.add(c.rank(), c.set_choices(algo, proto, channels));
                for (uint64_t count : {7ul, 300007ul}) {
                  const std::string wrong =
                      run_case(c, stream, {Collective::all_reduce, count, 0, count == 7});
                  if (!wrong.empty()) complaints.add(format("{} {} {}", algo, proto, wrong));
                  const Operation op{.collective = Collective::all_reduce,
                                     .input = &count,
                                     .output = &count,
                                     .count = 0};
                  auto plan = c.plan_for({&op, 1});
                  if (!plan || kernels::name_of(plan->ops[0].algorithm) != std::string(algo))
                    complaints.add("the plan is not what was asked for");
                }
              }
          complaints.add(c.rank(), c.set_choices("", "", 2));
          for (const Collective collective : kMovers) {
            const std::string wrong = run_case(c, stream, {collective, 200003, 1, false});
            if (!wrong.empty()) complaints.add(wrong);
          }
        }) == "");
}

TEST_CASE("log-step algorithms between partners, over shared memory and sockets",
          "[communicator]") {
  constexpr std::pair<const char*, Collective> kWays[] = {{"doubling", Collective::all_reduce},
                                                          {"rooted-tree", Collective::broadcast},
                                                          {"rooted-tree", Collective::reduce},
                                                          {"bruck", Collective::all_gather},
                                                          {"halving", Collective::reduce_scatter}};
  for (const char* transport : {"", "net"})
    for (const int n : {2, 3, 5, 8}) {
      CommOptions options;
      options.transport = transport;
      INFO(n << " ranks, " << transport);
      CHECK(with_ranks(n, options, [&](Communicator& c, Complaints& complaints) {
              Stream stream(c);
              for (const auto& [algo, collective] : kWays)
                for (const char* proto : {"simple", "ll"})
                  for (const int channels : {0, 2}) {
                    complaints.add(c.rank(), c.set_choices(algo, proto, channels));
                    for (const uint64_t count : {20'011ul, 0ul, 1ul, 333ul}) {
                      const std::string wrong =
                          run_case(c, stream, {collective, count, n - 1, count % 2 == 0});
                      if (!wrong.empty()) complaints.add(format("{} {} {}", algo, proto, wrong));
                    }
                  }
            }) == "");
    }
}

TEST_CASE("choices that need links which one rank has already, and others have not",
          "[communicator]") {
  CommOptions options;
  options.op_timeout_s = 20;
  CHECK(with_ranks(3, options, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          // In five channels the root gets a link to and from each rank; these get none between
          // each other.
          complaints.add(c.rank(), c.set_choices("pairwise", "", 5));
          for (const Collective collective : {Collective::gather, Collective::scatter}) {
            const std::string wrong = run_case(c, stream, {collective, 1000, 0, false});
            if (!wrong.empty()) complaints.add(wrong);
          }
          for (const char* algo : {"ring", "tree"}) {
            complaints.add(c.rank(), c.set_choices(algo, "", 5));
            const std::string wrong = run_case(c, stream, {Collective::all_reduce, 1000, 0, false});
            if (!wrong.empty()) complaints.add(wrong);
          }
        }) == "");
}

TEST_CASE("an asynchronous first use connects what it needs, for every algorithm",
          "[communicator]") {
  for (int n : {2, 3, 5, 8})
    for (const auto& row : kernels::algorithms()) {
      if (!serves(row, Collective::all_reduce) || row.network) continue;
      INFO(row.name << ", " << n << " ranks");
      CommOptions options;
      options.algo = row.name;
      CHECK(with_ranks(n, options, [](Communicator& c, Complaints& complaints) {
              Stream stream(c);
              for (auto launch : {Communicator::Launch::async, Communicator::Launch::blocking}) {
                const std::string wrong =
                    run_case(c, stream, {Collective::all_reduce, 5000, 0, false}, launch);
                if (!wrong.empty()) complaints.add(wrong);
              }
            }) == "");
    }
}

TEST_CASE("small slots and few of them", "[communicator]") {
  for (const char* steps : {"2", "3"}) {
    ::setenv("COLLCTL_STEPS", steps, 1);
    ::setenv("COLLCTL_BUFFSIZE", "2K", 1);
    ::setenv("COLLCTL_LL_BUFFSIZE", "1K", 1);
    CHECK(with_ranks(3, {}, [](Communicator& c, Complaints& complaints) {
            all_collectives(c, complaints, {1, 3000});
          }) == "");
  }
  ::unsetenv("COLLCTL_STEPS");
  ::unsetenv("COLLCTL_BUFFSIZE");
  ::unsetenv("COLLCTL_LL_BUFFSIZE");
}

TEST_CASE("operations of one stream run in order, streams of one communicator too",
          "[communicator]") {
  CHECK(with_ranks(3, {}, [](Communicator& c, Complaints& complaints) {
          Stream first(c), second(c);
          std::vector<double> a(1000, 1), b(1000), e(1000);
          // Each operation needs the one before it, whichever stream that is on.
          Operation op{.collective = Collective::all_reduce,
                       .input = a.data(),
                       .output = b.data(),
                       .count = a.size(),
                       .type = DataType::float64};
          for (int i = 0; i < 6; ++i) {
            op.input = i % 2 == 0 ? a.data() : b.data();
            op.output = i % 2 == 0 ? b.data() : a.data();
            complaints.add(c.rank(), c.start(op, i % 3 == 0 ? first : second));
          }
          complaints.add(c.rank(), first.synchronize());
          complaints.add(c.rank(), second.synchronize());
          if (!first.idle() || !second.idle()) complaints.add("not idle");
          for (double x : a)
            if (x != 729) return complaints.add(format("{} is not 3^6", x));
        }) == "");
}

TEST_CASE("types and reductions", "[communicator]") {
  CHECK(with_ranks(4, {}, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const auto run = [&](auto sample, DataType type, RedOp op, auto want) {
            std::vector<decltype(sample)> in(333, sample), out(333);
            const Operation o{.collective = Collective::all_reduce,
                              .input = in.data(),
                              .output = out.data(),
                              .count = in.size(),
                              .type = type,
                              .op = op};
            complaints.add(c.rank(), c.start(o, stream, Communicator::Launch::blocking));
            for (auto x : out)
              if (x != want)
                return complaints.add(format("{} {}", kernels::name_of(type), double(x)));
          };
          const int r = c.rank();
          run(int8_t(r), DataType::int8, RedOp::sum, int8_t(6));
          run(uint8_t(r + 1), DataType::uint8, RedOp::prod, uint8_t(24));
          run(int32_t(r), DataType::int32, RedOp::min, int32_t(0));
          run(int64_t(r), DataType::int64, RedOp::max, int64_t(3));
          run(float(r), DataType::float32, RedOp::avg, 1.5f);
          run(double(r), DataType::float64, RedOp::avg, 1.5);
        }) == "");
}

TEST_CASE("argument errors come back at once and harm nothing", "[communicator]") {
  CHECK(with_ranks(2, {}, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          float x = 1, y = 0;
          Operation op{
              .collective = Collective::all_reduce, .input = nullptr, .output = &y, .count = 1};
          for (auto launch : {Communicator::Launch::async, Communicator::Launch::blocking}) {
            const Status bad = c.start(op, stream, launch);
            if (bad || bad.error().code != ErrorCode::usage) complaints.add("null input taken");
          }
          op.input = &x;
          op.collective = Collective::broadcast;
          op.root = 2;
          if (c.start(op, stream)) complaints.add("root out of range taken");
          op.collective = Collective::all_reduce;
          op.root = 0;
          complaints.add(c.rank(), c.set_choices("pairwise", "", 0));
          const Status cannot = c.start(op, stream, Communicator::Launch::blocking);
          if (cannot || cannot.error().message.find("pairwise supports only") == std::string::npos)
            complaints.add("an algorithm that cannot serve was taken");
          if (c.set_choices("nonsense", "", 0)) complaints.add("unknown algorithm taken");
          complaints.add(c.rank(), c.set_choices("", "", 0));
          complaints.add(c.rank(), c.start(op, stream, Communicator::Launch::blocking));
          if (y != 2) complaints.add(format("{} is not 2", y));
          complaints.add(c.rank(), c.async_error());
        }) == "");
}

TEST_CASE("barrier and blobs over the bootstrap", "[communicator]") {
  CHECK(with_ranks(5, {}, [](Communicator& c, Complaints& complaints) {
          complaints.add(c.rank(), c.barrier(Deadline::after_seconds(60)));
          const Bytes mine(size_t(c.rank()) * 3, uint8_t(c.rank()));
          auto all = c.gather_blobs(mine, Deadline::after_seconds(60));
          if (!all) return complaints.add(all.error().chain());
          for (int r = 0; r < 5; ++r)
            if ((*all)[size_t(r)] != Bytes(size_t(r) * 3, uint8_t(r)))
              complaints.add("blob differs");
        }) == "");
}

TEST_CASE("settings that differ are named with both ranks", "[communicator]") {
  const Root root = make_root();
  Complaints complaints;
  on_all(3, [&](int r) {
    CommOptions options;
    options.start_timeout_s = 60;
    if (r == 2) options.algo = "ring";
    auto made = Communicator::init(root.id, r, 3, options);
    if (made) return complaints.add("started in spite of it");
    const std::string text = made.error().chain();
    if (made.error().code != ErrorCode::usage ||
        text.find("ALGO is '' on rank 0 and 'ring' on rank 2") == std::string::npos)
      complaints.add(text);
  });
  CHECK(complaints.text() == "");
}

TEST_CASE("what cannot be started", "[communicator]") {
  const Root root = make_root();
  auto out_of_range = Communicator::init(root.id, 3, 3, {});
  REQUIRE_FALSE(out_of_range);
  CHECK(out_of_range.error().code == ErrorCode::usage);
  CommOptions options;
  options.transport = "pigeon";
  auto unknown = Communicator::init(root.id, 0, 1, options);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("expected one of loopback, p2p, shm, net") !=
        std::string::npos);
  ::setenv("COLLCTL_BUFFSIZE", "100", 1);
  auto small = Communicator::init(root.id, 0, 1, {});
  ::unsetenv("COLLCTL_BUFFSIZE");
  REQUIRE_FALSE(small);
  CHECK(small.error().message.find("COLLCTL_BUFFSIZE") != std::string::npos);
}

}  // namespace communicator_communicator_tests
