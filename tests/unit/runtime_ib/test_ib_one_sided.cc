// One-sided operations by RDMA: what is posted for them, in which order it arrives, and where
// sockets serve instead. Faults that end them: test_ib_one_sided_faults.cc.
#include <atomic>

#include "base/env.h"
#include "base/wait.h"
#include "tests/unit/runtime_ib/one_sided_ib.h"

namespace ib_one_sided_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using base::ScopedVariable;
using fake_verbs::Fault;
using fake_verbs::FaultKind;

namespace {

// Every pair, five rounds.
std::string exchange_all(int n, uint64_t stripe, const std::string& path) {
  return over_ib(n, stripe * uint64_t(n), [&](OneSidedJob& job, Complaints& wrong) -> Status {
    for (int peer = 0; peer < n; ++peer)
      if (peer != job.rank() && job.ops->path(peer).rfind(path, 0) != 0)
        wrong.add("by " + job.ops->path(peer) + ": " + job.ops->why(peer));
    for (int round = 0; round < 5; ++round) COLL_TRY(exchange(job, stripe, round, wrong));
    return Status();
  });
}

}  // namespace

TEST_CASE("puts, gets and signals by RDMA between all ranks", "[ib][one_sided]") {
  for (const char* devices : {"fake_0:ib", "fake_0:roce,fake_1:roce:reads=1"})
    for (const int n : {2, 3, 4})
      for (const uint64_t stripe : {1, 64, 65, 300001}) {
        if (n != 2 && stripe < 300000) continue;
        INFO(devices << ", " << n << " ranks, " << stripe << " bytes");
        const Adapters adapters(devices);
        CHECK(exchange_all(n, stripe, "NET/IB/") == "");
      }
}

namespace {

// "write 8 inline", "write_imm 0": what was posted since it was cleared, in order; no receives.
std::vector<std::string> requests() {
  std::vector<std::string> all;
  for (const auto& post : fake_verbs::posted()) {
    if (post.opcode == 0xff) continue;
    const char* const name = post.opcode == 0   ? "write"
                             : post.opcode == 1 ? "write_imm"
                             : post.opcode == 4 ? "read"
                                                : "other";
    all.push_back(format("{} {}{}", name, post.bytes, post.inlined ? " inline" : ""));
  }
  return all;
}

using Texts = std::vector<std::string>;

// Rank 0 does one thing after the other; what each posts.
std::vector<Texts> requests_of(const std::string& devices,
                               const std::vector<std::function<Status(OneSidedJob&)>>& steps) {
  const Adapters adapters(devices);
  std::vector<Texts> seen;
  CHECK(over_ib(2, 1 << 20, [&](OneSidedJob& job, Complaints&) -> Status {
          if (job.rank() != 0) return job.ops->wait(0, 5, 1, soon());
          for (const auto& step : steps) {
            fake_verbs::clear_posted();
            COLL_TRY(step(job));
            seen.push_back(requests());
          }
          return job.ops->signal(1, 5);
        }) == "");
  return seen;
}

std::function<Status(OneSidedJob&)> put_of(uint64_t bytes) {
  return [bytes](OneSidedJob& job) {
    const std::vector<uint8_t> data(bytes, 7);
    return job.ops->put({job.window, 1, 0}, data.data(), bytes, soon());
  };
}
std::function<Status(OneSidedJob&)> put_signal_of(uint64_t bytes) {
  return [bytes](OneSidedJob& job) {
    const std::vector<uint8_t> data(bytes, 7);
    return job.ops->put_signal({job.window, 1, 0}, data.data(), bytes, 1, soon());
  };
}
Status flush_it(OneSidedJob& job) {
  return job.ops->flush(1, soon());
}

}  // namespace

// By hand: 64 bytes are sent with the request; what lies in no window is copied through pieces of
// 256 KiB = 262144; on InfiniBand more than 8192 bytes are announced apart.
TEST_CASE("the requests that one-sided operations post", "[ib][one_sided]") {
  const std::vector<Texts> seen = requests_of(
      "fake_0:ib", {put_of(8), flush_it, flush_it, put_signal_of(64), put_signal_of(65),
                    put_signal_of(8192), put_signal_of(8193), put_of(600000), put_signal_of(600000),
                    [](OneSidedJob& job) { return job.ops->signal(1, 0); },
                    [](OneSidedJob& job) {
                      return job.ops->put({job.window, 1, 1}, job.data(), 600000, soon());
                    },
                    flush_it,
                    [](OneSidedJob& job) {
                      std::vector<uint8_t> data(300000);
                      return job.ops->get({job.window, 1, 0}, data.data(), data.size(), soon());
                    },
                    [](OneSidedJob& job) {
                      return job.ops->get({job.window, 1, 0}, job.memory, 300000, soon());
                    }});
  const std::vector<Texts> expected = {
      {"write 8 inline"},
      {"read 1"},
      {},
      {"write_imm 64 inline"},
      {"write_imm 65"},
      {"write_imm 8192"},
      {"write 8193", "write_imm 0"},
      {"write 262144", "write 262144", "write 75712"},
      {"write 262144", "write 262144", "write 75712", "write_imm 0"},
      {"write_imm 0"},
      {"write 600000"},
      {"read 1"},
      {"read 262144", "read 37856"},
      {"read 300000"}};
  CHECK(seen == expected);
}

// RoCE is not taken to route packets by different ways, unless it is said to.
TEST_CASE("requests on RoCE, with parts on several queue pairs, and above a port's limit",
          "[ib][one_sided]") {
  const auto window_put = [](OneSidedJob& job) {
    return job.ops->put_signal({job.window, 1, 0}, job.data(), 600000, 1, soon());
  };
  CHECK(requests_of("fake_0:roce", {put_signal_of(8193), window_put}) ==
        std::vector<Texts>{{"write_imm 8193"}, {"write_imm 600000"}});
  {
    const ScopedVariable qps("COLLCTL_IB_QPS_PER_CONNECTION", "3");
    const ScopedVariable split("COLLCTL_IB_SPLIT_DATA_ON_QPS", "1");
    const ScopedVariable adaptive("COLLCTL_IB_ADAPTIVE_ROUTING", "1");
    CHECK(requests_of("fake_0:roce", {window_put, flush_it}) ==
          std::vector<Texts>{{"write 200000", "write 200000", "write 200000", "write_imm 0"},
                             {"read 1", "read 1", "read 1"}});
  }
  CHECK(requests_of("fake_0:ib:message=262144", {window_put}) ==
        std::vector<Texts>{{"write 262144", "write 262144", "write 75712", "write_imm 0"}});
}

// Packets of writes overtake each other: what a signal announces is there all the same.
TEST_CASE("a signal comes behind the data where only immediates are ordered", "[ib][one_sided]") {
  for (const char* qps : {"1", "3"}) {
    INFO(qps << " queue pairs");
    const Adapters adapters("fake_0:ib");
    const ScopedVariable pairs("COLLCTL_IB_QPS_PER_CONNECTION", qps);
    const int fault = fake_verbs::add_fault({.kind = FaultKind::kReorder, .times = 0, .us = 300});
    CHECK(over_ib(2, 70001, [](OneSidedJob& job, Complaints& wrong) -> Status {
            for (int round = 0; round < 20; ++round) {
              const int peer = 1 - job.rank();
              // Small ones, which nobody waits for, then a large one with the signal.
              for (uint64_t at = 0; at < 64; at += 16)
                COLL_TRY(job.ops->put({job.window, peer, at},
                                      bytes_of(peer, job.rank(), round, at, 16).data(), 16,
                                      soon()));
              COLL_TRY(job.ops->put_signal({job.window, peer, 64},
                                           bytes_of(peer, job.rank(), round, 64, 69937).data(),
                                           69937, 0, soon()));
              COLL_TRY(job.ops->wait(peer, 0, 1, soon()));
              const auto expected = bytes_of(job.rank(), peer, round, 0, 70001);
              if (std::memcmp(job.data(), expected.data(), expected.size()) != 0)
                wrong.add(format("round {}: the signal arrived before the data", round));
              COLL_TRY(job.ops->barrier(soon()));
            }
            return Status();
          }) == "");
    CHECK(fake_verbs::hits(fault) > 0);
  }
}

TEST_CASE("what retries mend leaves one-sided data right", "[ib][one_sided]") {
  const ScopedVariable timeout("COLLCTL_IB_TIMEOUT", "10");
  for (const Fault& fault : {Fault{.kind = FaultKind::kDrop, .times = 5, .value = 2},
                             Fault{.kind = FaultKind::kAckLost, .times = 5, .value = 2},
                             Fault{.kind = FaultKind::kDelay, .times = 20, .us = 2000}})
    for (const char* opcode : {"write", "write_imm", "read"}) {
      INFO("fault " << int(fault.kind) << " of " << opcode);
      const Adapters adapters("fake_0:ib");
      Fault one = fault;
      one.opcode = opcode;
      const int number = fake_verbs::add_fault(one);
      CHECK(exchange_all(2, 70001, "NET/IB/0") == "");
      CHECK(fake_verbs::hits(number) > 0);
    }
}

// More signals than a queue pair takes at once, while the other rank does not look.
TEST_CASE("signals are never refused for want of room", "[ib][one_sided]") {
  for (const bool late : {false, true}) {
    const Adapters adapters(fake_verbs::Setup{.devices = "fake_0:ib", .late = late});
    CHECK(over_ib(2, 64, [](OneSidedJob& job, Complaints& wrong) -> Status {
            if (job.rank() == 0) {
              for (int i = 0; i < 3000; ++i) COLL_TRY(job.ops->signal(1, i % 3));
              return Status();
            }
            for (int signal = 0; signal < 3; ++signal)
              COLL_TRY(job.ops->wait(0, signal, 1000, soon()));
            const Status more = job.ops->wait(0, 1, 1, Deadline::after_ms(30));
            if (more || more.error().code != ErrorCode::deadline) wrong.add("one signal too many");
            return Status();
          }) == "");
  }
}

namespace {

Status two_windows(OneSidedJob& job, Complaints& wrong) {
  const int peer = 1 - job.rank();
  const uint64_t large = 12 << 20;
  auto memory = allocate_window_memory(large);
  if (!memory) return std::move(memory.error());
  const WindowRange range{.address = *memory, .bytes = large};
  COLL_ASSIGN(const auto windows, job.communicator.register_windows({&range, 1}, soon()));
  if (job.ops->path(peer) != "NET/IB/0") wrong.add("small window by " + job.ops->path(peer));
  COLL_TRY(job.ops->barrier(soon()));  // before the peer says another thing
  COLL_TRY(job.ops->share(windows, soon()));
  if (job.ops->path(peer) != "NET/Socket" ||
      job.ops->why(peer).find(format("window {} of rank {}", windows[0]->number(), peer)) != 0 ||
      job.ops->why(peer).find("register 12582912 bytes") == std::string::npos)
    wrong.add("large window: " + job.ops->path(peer) + ", " + job.ops->why(peer));
  // Data that goes one way is there before what is signalled the other way.
  for (int round = 0; round < 10; ++round) {
    const auto a = bytes_of(peer, job.rank(), round, 0, 4000);
    COLL_TRY(job.ops->put({job.window, peer, 0}, a.data(), 64, soon()));
    COLL_TRY(job.ops->put({windows[0], peer, 5000}, a.data(), 4000, soon()));
    COLL_TRY(job.ops->signal(peer, 2));
    COLL_TRY(job.ops->wait(peer, 2, 1, soon()));
    const auto expected = bytes_of(job.rank(), peer, round, 0, 4000);
    if (std::memcmp(job.data(), expected.data(), 64) != 0 ||
        std::memcmp(static_cast<uint8_t*>(*memory) + 5000, expected.data(), 4000) != 0)
      wrong.add(format("round {}: wrong bytes", round));
    COLL_TRY(job.ops->barrier(soon()));
    std::vector<uint8_t> back(4000);
    COLL_TRY(job.ops->get({windows[0], peer, 5000}, back.data(), 4000, soon()));
    if (back != a) wrong.add("got other bytes");
    COLL_TRY(job.ops->barrier(soon()));
  }
  COLL_TRY(job.ops->withdraw(windows, soon()));
  if (job.ops->path(peer) != "NET/IB/0") wrong.add("afterwards by " + job.ops->path(peer));
  COLL_TRY(job.communicator.deregister_windows(windows, soon()));
  return free_window_memory(*memory);
}

}  // namespace

TEST_CASE("a window that adapters do not take goes over sockets, with the reason",
          "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib:region=8388608");
  CHECK(over_ib(2, 100000, two_windows) == "");
}

TEST_CASE("where no link can be made sockets serve, and both ends know why", "[ib][one_sided]") {
  // The copies' memory is larger than what may be registered; links of operations have smaller.
  const Adapters adapters("fake_0:ib:region=1048576");
  const ScopedVariable buffers("COLLCTL_BUFFSIZE", "65536");
  CHECK(over_ib(2, 3000, [](OneSidedJob& job, Complaints& wrong) -> Status {
          const int peer = 1 - job.rank();
          if (job.ops->path(peer) != "NET/Socket" ||
              job.ops->why(peer).find("register 4194304 bytes") == std::string::npos)
            wrong.add(job.ops->path(peer) + ", " + job.ops->why(peer));
          return exchange(job, 1500, 0, wrong);
        }) == "");
}

TEST_CASE("sockets that were asked for are the reason", "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib");
  CommOptions options = one_sided_over_ib();
  options.net = "socket";
  CHECK(with_one_sided(2, options, 3000, [](OneSidedJob& job, Complaints& wrong) -> Status {
          const int peer = 1 - job.rank();
          if (job.ops->path(peer) != "NET/Socket" ||
              job.ops->why(peer) != "no IB here: sockets were requested")
            wrong.add(job.ops->path(peer) + ", " + job.ops->why(peer));
          return exchange(job, 1500, 0, wrong);
        }) == "");
}

// Others may be shared beside it while a put into it is still under way.
TEST_CASE("a window that is shared once more stays registered as it was", "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib");
  std::atomic<bool> under_way{false};
  CHECK(over_ib(2, 100, [&](OneSidedJob& job, Complaints& wrong) -> Status {
          const std::vector<WindowPointer> windows{job.window};
          if (job.rank() == 0) {
            const int late = fake_verbs::add_fault(
                {.kind = FaultKind::kDelay, .opcode = "write", .us = 200'000});
            const uint8_t byte = 9;
            COLL_TRY(job.ops->put({job.window, 1, 99}, &byte, 1, soon()));
            if (fake_verbs::hits(late) != 1) wrong.add("no put is late");
            under_way = true;
          } else {
            const Deadline deadline = soon();
            while (!under_way && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
          }
          COLL_TRY(job.ops->share(windows, soon()));
          if (job.rank() == 1 && job.data()[99] != 9) wrong.add("the put is not in place");
          return exchange(job, 50, 1, wrong);
        }) == "");
  fake_verbs::clear_faults();
}

TEST_CASE("one-sided RDMA opened and closed again and again leaves nothing", "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib,fake_1:ib");
  CHECK(with_ranks(3, one_sided_over_ib(), [&](Communicator& c, Complaints& wrong) {
          for (int round = 0; round < 10; ++round) {
            auto job = OneSidedJob::start(c, 4096);
            if (!job) return wrong.add(c.rank(), job.error());
            wrong.add(c.rank(), exchange(**job, 1000, round, wrong));
            wrong.add(c.rank(), (*job)->end());
          }
        }) == "");
}

// Adapters hold writes into GPU memory back until a read, or for a second here: a signal that came
// without the read would come before the data.
TEST_CASE("windows in GPU memory by RDMA", "[ib][one_sided]") {
  for (const char* devices : {"fake_0:ib:dmabuf", "fake_0:roce:peermem"}) {
    INFO(devices);
    const Adapters adapters(fake_verbs::Setup{.devices = devices, .hold_us = 1'000'000});
    set_up_gpus(2);  // of a kind that needs the read
    GpuJob gpus;
    gpus.options = one_sided_over_ib();
    CHECK(with_gpu_ranks(gpus, [](Communicator& c, Complaints& wrong) {
            auto job = OneSidedJob::start(c, 2 * 70001);
            if (!job) return wrong.add(c.rank(), job.error());
            if ((*job)->ops->path(1 - c.rank()) != "NET/IB/0")
              wrong.add((*job)->ops->path(1 - c.rank()) + (*job)->ops->why(1 - c.rank()));
            for (int round = 0; round < 3; ++round)
              wrong.add(c.rank(), exchange(**job, 70001, round, wrong));
            // From one GPU's window into the other's, without a copy.
            wrong.add(c.rank(), (*job)->ops->put({(*job)->window, 1 - c.rank(), 5}, (*job)->data(),
                                                 3, soon()));
            wrong.add(c.rank(), (*job)->ops->barrier(soon()));
            wrong.add(c.rank(), (*job)->end());
          }) == "");
  }
}

TEST_CASE("GPU memory that adapters do not reach goes over sockets, with the reason",
          "[ib][one_sided]") {
  const Adapters adapters("fake_0:ib");
  set_up_gpus(2);
  GpuJob gpus;
  gpus.options = one_sided_over_ib();
  CHECK(with_gpu_ranks(gpus, [](Communicator& c, Complaints& wrong) {
          auto job = OneSidedJob::start(c, 2 * 70001);
          if (!job) return wrong.add(c.rank(), job.error());
          const OneSided& ops = *(*job)->ops;
          if (ops.path(1 - c.rank()) != "NET/Socket") wrong.add(ops.path(1 - c.rank()));
          if (ops.why(1 - c.rank()).find("no peer memory module is loaded") == std::string::npos)
            wrong.add("why: " + ops.why(1 - c.rank()));
          for (int round = 0; round < 3; ++round)
            wrong.add(c.rank(), exchange(**job, 70001, round, wrong));
          wrong.add(c.rank(), (*job)->end());
        }) == "");
}

}  // namespace ib_one_sided_tests
