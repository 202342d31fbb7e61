// Put, get, signal, wait and barrier on windows: ranks as threads, once within a team (loads and
// stores) and once with every rank a team of its own (transport net), where all of it goes over
// sockets.
#include "base/wait.h"
#include "tests/asleep.h"
#include "tests/unit/runtime/one_sided/one_sided_job.h"

namespace one_sided_one_sided_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

CommOptions over(const std::string& transport) {
  CommOptions options;
  options.transport = transport;
  options.window_stride = 32 << 20;
  return options;
}

// Runs `body` on every rank of a job with windows; what went wrong.
std::string with_windows(int n, const std::string& transport, uint64_t bytes,
                         const std::function<Status(OneSidedJob&, Complaints&)>& body) {
  return with_one_sided(n, over(transport), bytes, body);
}

}  // namespace

TEST_CASE("puts, gets and signals between all ranks", "[one_sided]") {
  for (const char* transport : {"", "net"})
    for (const int n : {1, 2, 3, 5}) {
      if (n == 1 && *transport != 0) continue;
      INFO(n << " ranks, transport '" << transport << "'");
      const uint64_t stripe = 70001;
      CHECK(with_windows(n, transport, stripe * uint64_t(n),
                         [&](OneSidedJob& job, Complaints& wrong) -> Status {
                           for (int round = 0; round < 5; ++round)
                             COLL_TRY(exchange(job, stripe, round, wrong));
                           return Status();
                         })
                .empty());
    }
}

TEST_CASE("paths are as the ranks reach each other", "[one_sided]") {
  CHECK(with_windows(2, "", 64, [](OneSidedJob& job, Complaints& wrong) -> Status {
          if (!job.ops->direct(1 - job.rank()) || job.ops->path(1 - job.rank()) != "window")
            wrong.add("not by stores: " + job.ops->path(1 - job.rank()));
          return {};
        }).empty());
  CHECK(with_windows(2, "net", 64, [](OneSidedJob& job, Complaints& wrong) -> Status {
          if (job.ops->direct(1 - job.rank()) || job.ops->path(1 - job.rank()) != "NET/Socket")
            wrong.add("not by the network: " + job.ops->path(1 - job.rank()));
          if (!job.ops->direct(job.rank())) wrong.add("the own window is not direct");
          return {};
        }).empty());
}

// More than sockets hold, both ways at the same time: two ranks that answered each other in turn
// would block.
TEST_CASE("large gets in both directions at the same time", "[one_sided]") {
  const uint64_t bytes = 12 << 20;
  CHECK(with_windows(2, "net", bytes, [&](OneSidedJob& job, Complaints& wrong) -> Status {
          const auto own = bytes_of(job.rank(), job.rank(), 0, 0, bytes);
          std::memcpy(job.memory, own.data(), bytes);
          COLL_TRY(job.ops->barrier(soon()));
          std::vector<uint8_t> got(bytes);
          COLL_TRY(job.ops->get({job.window, 1 - job.rank(), 0}, got.data(), bytes, soon()));
          if (got != bytes_of(1 - job.rank(), 1 - job.rank(), 0, 0, bytes))
            wrong.add("wrong bytes");
          return job.ops->barrier(soon());
        }).empty());
}

// Behind a barrier every put of every rank is in place, whoever it went to.
TEST_CASE("a barrier orders all puts", "[one_sided]") {
  for (const char* transport : {"", "net"}) {
    INFO("transport '" << transport << "'");
    CHECK(with_windows(4, transport, 4 * 16, [](OneSidedJob& job, Complaints& wrong) -> Status {
            for (uint64_t round = 1; round <= 50; ++round) {
              const uint64_t bank = round % 2 * 8;
              for (int peer = 0; peer < 4; ++peer)
                COLL_TRY(job.ops->put({job.window, peer, uint64_t(job.rank()) * 16 + bank}, &round,
                                      8, soon()));
              COLL_TRY(job.ops->barrier(soon()));
              for (uint64_t writer = 0; writer < 4; ++writer) {
                uint64_t seen = 0;
                std::memcpy(&seen, job.data() + writer * 16 + bank, 8);
                if (seen != round)
                  wrong.add(format("rank {} sees {} of rank {} behind barrier {}", job.rank(), seen,
                                   writer, round));
              }
            }
            return job.ops->barrier(soon());
          }).empty());
  }
}

TEST_CASE("signals are counted, each for itself", "[one_sided]") {
  for (const char* transport : {"", "net"})
    CHECK(with_windows(3, transport, 64, [](OneSidedJob& job, Complaints&) -> Status {
            const int next = (job.rank() + 1) % 3, before = (job.rank() + 2) % 3;
            for (int i = 0; i < 7; ++i) COLL_TRY(job.ops->signal(next, i % 2));
            COLL_TRY(job.ops->wait(before, 0, 3, soon()));
            COLL_TRY(job.ops->wait(before, 1, 3, soon()));
            COLL_TRY(job.ops->wait(before, 0, 1, soon()));
            return job.ops->barrier(soon());
          }).empty());
}

TEST_CASE("misuse is refused in words", "[one_sided]") {
  for (const char* transport : {"", "net"})
    CHECK(with_windows(2, transport, 100, [](OneSidedJob& job, Complaints& wrong) -> Status {
            uint8_t bytes[101] = {};
            const auto refused = [&](const char* what, const Status& got, const char* words) {
              if (got || got.error().code != ErrorCode::usage ||
                  got.error().message.find(words) == std::string::npos)
                wrong.add(format("{}: {}", what, got ? "accepted" : got.error().chain()));
            };
            const int peer = 1 - job.rank();
            auto& ops = *job.ops;
            refused("beyond", ops.put({job.window, peer, 1}, bytes, 100, soon()), "exceeds");
            refused("far beyond", ops.put({job.window, peer, ~uint64_t(0)}, bytes, 1, soon()),
                    "exceeds");
            refused("too long", ops.get({job.window, peer, 0}, bytes, 101, soon()), "exceeds");
            refused("no rank", ops.put({job.window, 2, 0}, bytes, 1, soon()), "no such rank");
            refused("no rank", ops.get({job.window, -1, 0}, bytes, 1, soon()), "no such rank");
            refused("no window", ops.put({nullptr, peer, 0}, bytes, 1, soon()), "not registered");
            refused("no signal", ops.signal(peer, kSignals), "signal 6");
            refused("no signal", ops.wait(peer, -1, 1, soon()), "signal -1");
            // The refused put has moved nothing.
            COLL_TRY(ops.barrier(soon()));
            for (int i = 0; i < 100; ++i)
              if (job.data()[i] != 0) wrong.add("a refused put has written");
            return ops.barrier(soon());
          }).empty());
}

TEST_CASE("a wait ends at its deadline and names the rank", "[one_sided]") {
  for (const char* transport : {"", "net"})
    CHECK(with_windows(2, transport, 64, [](OneSidedJob& job, Complaints& wrong) -> Status {
            if (job.rank() == 0) {
              const Status waited = job.ops->wait(1, 2, 1, Deadline::after_ms(50));
              if (waited || waited.error().code != ErrorCode::deadline ||
                  waited.error().rank != 1 ||
                  waited.error().message.find("signal 2 from rank 1") == std::string::npos)
                wrong.add(waited ? "a signal that was not raised" : waited.error().chain());
              COLL_TRY(job.ops->signal(1, 0));
            } else {
              COLL_TRY(job.ops->wait(0, 0, 1, soon()));
            }
            return job.ops->barrier(soon());
          }).empty());
}

// A rank that goes away with an error ends the others' waits by the communicator's word.
TEST_CASE("a wait ends when the job is aborted", "[one_sided]") {
  for (const char* transport : {"", "net"}) {
    INFO("transport '" << transport << "'");
    const Communicators job = start_job(3, over(transport));
    Complaints wrong;
    on_all(3, [&](int r) {
      Communicator& c = *job[size_t(r)];
      auto ops = OneSided::open(c, soon());
      if (!ops) return wrong.add(r, ops.error());
      if (r == 2) {  // leaves when the others are about to wait, and not in a barrier of theirs
        for (const int other : {0, 1})
          if (Status arrived = (*ops)->wait(other, 1, 1, soon()); !arrived)
            return wrong.add(r, arrived);
        return c.abort(Error(ErrorCode::lost, "rank 2 leaves").blame(2));
      }
      if (Status told = (*ops)->signal(2, 1); !told) return wrong.add(r, told);
      const Status waited = (*ops)->wait(2, 0, 1, soon());
      if (waited || waited.error().message.find("rank 2 leaves") == std::string::npos)
        wrong.add(format("rank {}: {}", r, waited ? "went on" : waited.error().chain()));
    });
    INFO(wrong.text());
    CHECK(wrong.text().empty());
  }
}

TEST_CASE("the network gives nothing of a window that is not shared", "[one_sided]") {
  const std::string said = with_ranks(2, over("net"), [](Communicator& c, Complaints& wrong) {
    const int r = c.rank();
    auto started = OneSidedJob::start(c, 4096);
    if (!started) return wrong.add(r, started.error());
    OneSidedJob& own = **started;
    const std::vector<WindowPointer> windows{own.window};
    wrong.add(r, own.ops->withdraw(windows, soon()));
    wrong.add(r, own.ops->barrier(soon()));
    uint8_t byte = 7;
    if (r == 0) {
      const Status got = own.ops->get({own.window, 1, 0}, &byte, 1, soon());
      if (got || got.error().code != ErrorCode::lost || got.error().rank != 1)
        wrong.add(got ? "got a byte" : got.error().chain());
      // From then on that peer is out of reach, at once.
      const Status again = own.ops->put({own.window, 1, 0}, &byte, 1, soon());
      if (again || again.error().code != ErrorCode::lost) wrong.add("a put after that");
    }
    // Nothing of it ends the communicator.
    wrong.add(r, c.barrier(soon()));
    if (r == 1 && own.data()[0] != 0) wrong.add("the window was written");
    wrong.add(r, c.deregister_windows(windows, soon()));
    own.ops.reset();
    wrong.add(r, free_window_memory(own.memory));
  });
  INFO(said);
  CHECK(said.empty());
}

// Memory that peers may still write into is not pulled away under the thread that does it for them.
TEST_CASE("memory of a window that is shared stays until it is withdrawn", "[one_sided]") {
  const std::string said = with_ranks(2, over("net"), [](Communicator& c, Complaints& wrong) {
    const int r = c.rank();
    auto started = OneSidedJob::start(c, 4096);
    if (!started) return wrong.add(r, started.error());
    OneSidedJob& own = **started;
    const std::vector<WindowPointer> windows{own.window};
    if (r == 1) {
      wrong.add(r, c.deregister_windows(windows, soon()));
      const Status freed = free_window_memory(own.memory);
      if (freed) return wrong.add("memory that peers may write into was freed");
      if (freed.error().code != ErrorCode::usage ||
          freed.error().message.find("is still registered") == std::string::npos)
        wrong.add(freed.error().chain());
    }
    wrong.add(r, own.ops->barrier(soon()));
    const uint8_t byte = 7;
    if (r == 0) wrong.add(r, own.ops->put({own.window, 1, 4095}, &byte, 1, soon()));
    wrong.add(r, own.ops->barrier(soon()));
    if (r == 1 && own.data()[4095] != 7) wrong.add("the put did not arrive");
    wrong.add(r, own.ops->withdraw(windows, soon()));
    if (r == 0) wrong.add(r, c.deregister_windows(windows, soon()));
    wrong.add(r, free_window_memory(own.memory));
    own.ops.reset();
  });
  INFO(said);
  CHECK(said.empty());
}

// Its signals still count; what it has not raised before it never will.
TEST_CASE("a wait for a rank that has closed its windows ends at once", "[one_sided]") {
  const std::string said = with_ranks(2, over("net"), [](Communicator& c, Complaints& wrong) {
    const int r = c.rank();
    auto ops = OneSided::open(c, soon());
    if (!ops) return wrong.add(r, ops.error());
    if (r == 1) {
      wrong.add(r, (*ops)->signal(0, 2));
      wrong.add(r, (*ops)->signal(0, 2));
      ops->reset();
    } else {
      const Status waited = (*ops)->wait(1, 3, 1, soon());
      if (waited || waited.error().code != ErrorCode::lost || waited.error().rank != 1 ||
          waited.error().message.find("rank 1 (host ") == std::string::npos ||
          waited.error().message.find("has closed its windows") == std::string::npos)
        wrong.add(waited ? "a signal that was not raised" : waited.error().chain());
      wrong.add(r, (*ops)->wait(1, 2, 2, soon()));
      ops->reset();
    }
    wrong.add(r, c.barrier(soon()));
  });
  INFO(said);
  CHECK(said.empty());
}

// Rank 1 leaves because of what rank 2 is about to send everybody, and its goodbye comes first.
TEST_CASE("the reason why a peer has left is the error", "[one_sided]") {
  const Communicators job = start_job(3, over("net"));
  Complaints wrong;
  on_all(3, [&](int r) {
    Communicator& c = *job[size_t(r)];
    auto started = OneSidedJob::start(c, 64);
    if (!started) return wrong.add(r, started.error());
    OneSided& ops = *(*started)->ops;
    if (r == 1) {
      wrong.add(r, ops.signal(2, 0));
      (*started)->ops.reset();
    } else if (r == 2) {
      wrong.add(r, ops.wait(1, 0, 1, soon()));
      if (!test::wait_until_others_sleep()) wrong.add("rank 0 does not wait");
      c.abort(Error(ErrorCode::lost, "rank 2 leaves").blame(2));
    } else {
      const Status waited = ops.wait(1, 0, 1, soon());
      if (waited || waited.error().message.find("rank 2 leaves") == std::string::npos)
        wrong.add(waited ? "went on" : waited.error().chain());
      const uint8_t byte = 7;
      const Status put = ops.put({(*started)->window, 1, 0}, &byte, 1, soon());
      if (put || put.error().message.find("rank 2 leaves") == std::string::npos)
        wrong.add(put ? "was put" : put.error().chain());
    }
    (*started)->ops.reset();
    const std::vector<WindowPointer> windows{(*started)->window};
    wrong.add(r, c.deregister_windows(windows, soon()));
    wrong.add(r, free_window_memory((*started)->memory));
  });
  INFO(wrong.text());
  CHECK(wrong.text().empty());
}

TEST_CASE("a window of another communicator is refused", "[one_sided]") {
  for (const char* transport : {"", "net"}) {
    INFO("transport '" << transport << "'");
    const Communicators first = start_job(2, over(transport)),
                        second = start_job(2, over(transport));
    Complaints wrong;
    on_all(2, [&](int r) {
      auto a = OneSidedJob::start(*first[size_t(r)], 64);
      auto b = OneSidedJob::start(*second[size_t(r)], 64);
      if (!a || !b) return wrong.add("no windows");
      uint8_t byte = 7;
      const auto refused = [&](const Status& got) {
        if (got || got.error().code != ErrorCode::usage ||
            got.error().message.find("of another communicator") == std::string::npos)
          wrong.add(got ? "accepted" : got.error().chain());
      };
      refused((*a)->ops->put({(*b)->window, 1 - r, 0}, &byte, 1, soon()));
      refused((*a)->ops->get({(*b)->window, 1 - r, 0}, &byte, 1, soon()));
      refused((*a)->ops->put_signal({(*b)->window, 1 - r, 0}, &byte, 1, 0, soon()));
      wrong.add(r, (*a)->ops->barrier(soon()));
      if ((*a)->data()[0] != 0 || (*b)->data()[0] != 0) wrong.add("a refused put has written");
      wrong.add(r, (*a)->end());
      wrong.add(r, (*b)->end());
    });
    INFO(wrong.text());
    CHECK(wrong.text().empty());
  }
}

TEST_CASE("an injected fault is one wrong bit of one put", "[one_sided]") {
  kernels::Fault fault;
  fault.kind = kernels::FaultKind::corrupt;
  fault.rank = 1;
  fault.step = 2;
  const std::string text = with_ranks(2, over(""), [&](Communicator& c, Complaints& wrong) {
    auto started = OneSidedJob::start(c, 64, fault);
    if (!started) return wrong.add(c.rank(), started.error());
    OneSidedJob& job = **started;
    const uint8_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (uint64_t i = 0; i < 4; ++i)
      wrong.add(c.rank(), job.ops->put({job.window, 1 - c.rank(), i * 16}, ones, 16, soon()));
    wrong.add(c.rank(), job.ops->barrier(soon()));
    // Rank 1's puts are in rank 0's window: the third one's first byte has another lowest bit.
    for (uint64_t i = 0; i < 64; ++i) {
      const uint8_t expected = c.rank() == 0 && i == 32 ? 0 : 1;
      if (job.data()[i] != expected) wrong.add(format("rank {} byte {}", c.rank(), i));
    }
    wrong.add(c.rank(), job.ops->barrier(soon()));
    wrong.add(c.rank(), job.end());
  });
  INFO(text);
  CHECK(text.empty());
}

TEST_CASE("opening and closing again and again leaves nothing", "[one_sided]") {
  const WindowMemoryUsage before = window_memory_usage();
  for (const char* transport : {"", "net"}) {
    const std::string text =
        with_ranks(3, over(transport), [&](Communicator& c, Complaints& wrong) {
          for (int round = 0; round < 20; ++round) {
            auto job = OneSidedJob::start(c, 4096);
            if (!job) return wrong.add(c.rank(), job.error());
            wrong.add(c.rank(), exchange(**job, 1000, round, wrong));
            wrong.add(c.rank(), (*job)->end());
            wrong.add(c.rank(), c.barrier(soon()));
          }
          if (c.windows().usage().windows != 0) wrong.add("windows are left");
        });
    INFO(text);
    CHECK(text.empty());
  }
  CHECK(window_memory_usage().segments == before.segments);
}

}  // namespace one_sided_one_sided_tests
