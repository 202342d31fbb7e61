// A communicator's report of its waits: sums by peer, what it does now, and who came late.
#include <atomic>
#include <chrono>

#include "base/wait.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace waits_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Operation sum_of(std::vector<float>& buffer) {
  Operation op;
  op.collective = kernels::Collective::all_reduce;
  op.input = buffer.data();
  op.output = buffer.data();
  op.count = buffer.size();
  op.type = kernels::DataType::float32;
  op.op = kernels::RedOp::sum;
  return op;
}

uint64_t recv_ns(const Communicator& rank, int peer) {
  const Result<WaitSums> sums = rank.wait_sums();
  REQUIRE(bool(sums));
  for (const auto& one : sums->peers)
    if (one.peer == peer) return one.recv_ns;
  return 0;
}

// Three calls of three ranks; the last one comes late to each, and looks at what rank 0 does.
Activity with_a_late_rank(const Communicators& ranks) {
  Complaints complaints;
  Activity meanwhile;
  on_all(3, [&](int r) {
    Stream stream(*ranks[size_t(r)]);
    std::vector<float> buffer(1024, 1.0f);
    for (int i = 0; i < 3; ++i) {
      // time is what is tested: how long the others wait is counted
      if (r == 2) base::sleep_until(Deadline::after_ms(60));
      if (r == 2 && i == 2) {
        // time is what is tested: how long the others wait is counted
        base::sleep_until(Deadline::after_ms(60));
        // A machine that is busy with others may take its time to note a wait.
        const Deadline shown = Deadline::after_seconds(20);
        do meanwhile = ranks[0]->activity();
        while (meanwhile.waits.empty() && !meanwhile.window && !shown.passed());
      }
      complaints.add(
          r, ranks[size_t(r)]->start(sum_of(buffer), stream, Communicator::Launch::blocking));
      complaints.add(r, stream.synchronize());
    }
  });
  CHECK(complaints.text() == "");
  return meanwhile;
}

// A channel waits for one peer at a time: there is no more to count than the time that went by.
void check_bounds(const Communicator& rank, int64_t start_ns) {
  const Result<WaitSums> sums = rank.wait_sums();
  REQUIRE(bool(sums));
  uint64_t waited_ns = 0;
  for (const auto& one : sums->peers) waited_ns += one.recv_ns + one.send_ns;
  CHECK(waited_ns <= uint64_t(now_ns() - start_ns) * uint64_t(std::max(sums->channels, 1)));
}

void check_late_rank(const Communicators& ranks) {
  const int64_t start_ns = now_ns();
  const Activity meanwhile = with_a_late_rank(ranks);
  check_bounds(*ranks[0], start_ns);
  // In a ring one of the others has its data from the late one, and is waited for itself; in a
  // window all look at all.
  const uint64_t of_first = recv_ns(*ranks[0], 2), of_second = recv_ns(*ranks[1], 2);
  CHECK(std::max(of_first, of_second) > 100'000'000);
  CHECK(recv_ns(*ranks[0], 1) + of_first > 100'000'000);
  CHECK(recv_ns(*ranks[1], 0) + of_second > 100'000'000);
  CHECK(recv_ns(*ranks[2], 0) + recv_ns(*ranks[2], 1) < std::max(of_first, of_second));
  CHECK(meanwhile.busy);
  CHECK(meanwhile.calls == 3);
  CHECK(meanwhile.last.find("allreduce of 4096 bytes") == 0);
  if (meanwhile.window) {
    CHECK(meanwhile.window->missing == std::vector<int>{2});
  } else {
    REQUIRE_FALSE(meanwhile.waits.empty());
    CHECK(meanwhile.waits[0].wait.peer == (of_first > 100'000'000 ? 2 : 1));
  }
  CHECK(ranks[0]->activity().waits.empty());
}

void finalize(const Communicators& ranks) {
  Complaints complaints;
  on_all(int(ranks.size()), [&](int r) {
    complaints.add(r, ranks[size_t(r)]->finalize(Deadline::after_seconds(10)));
  });
  CHECK(complaints.text().empty());
}

}  // namespace

TEST_CASE("the others' waits are for the rank that comes late", "[waits]") {
  for (const char* algorithm : {"ring", "one-shot"}) {
    for (const char* transport : {"shm", "net"}) {
      const bool window = std::string_view(algorithm) == "one-shot";
      if (window && std::string_view(transport) == "net") continue;
      INFO(algorithm << " over " << transport);
      CommOptions options;
      options.algo = algorithm;
      options.transport = window ? "" : transport;
      options.count_waits = true;
      const Communicators ranks = start_job(3, options);
      check_late_rank(ranks);
      CHECK_FALSE(ranks[0]->activity().busy);
      finalize(ranks);
    }
  }
}

namespace {

std::atomic<bool> g_loads_counting_kernels;

}  // namespace

TEST_CASE("the waits of GPU ranks are for the one that comes late", "[waits][gpu]") {
  kernels::cuda::Launcher launcher = host_launcher();
  launcher.prepare = [](bool counts_waits) {
    g_loads_counting_kernels = counts_waits;
    return 0;
  };
  for (const char* algorithm : {"ring", "one-shot"}) {
    INFO(algorithm);
    set_up_gpus(3);
    GpuJob job;
    job.ranks = 3;
    job.launcher = &launcher;
    job.options.algo = algorithm;
    job.options.count_waits = true;
    const LaunchCounts before = launch_counts();
    const Communicators ranks = start_gpu_job(job);
    check_late_rank(ranks);
    CHECK(g_loads_counting_kernels);
    // Those run that run otherwise, too.
    CHECK((launch_counts().windows > before.windows) ==
          (std::string_view(algorithm) == "one-shot"));
    finalize(ranks);
  }
}

// Its kernel writes nothing; what ranks have written of it does. Also where more operations follow
// than the driver's queue takes: a launch that waited there would keep whoever looks.
TEST_CASE("whom a GPU rank in a window waits for is seen from outside", "[waits][gpu]") {
  struct Case {
    int more;
    bool group;  // in one submission
  };
  const Case chosen = GENERATE(Case{0, false}, Case{2000, false}, Case{1500, true});
  const int more = chosen.more;
  const bool group = chosen.group;
  INFO(more << " more operations" << (group ? " in one submission" : ""));
  set_up_gpus(3);
  GpuJob job;
  job.ranks = 3;
  job.options.algo = "one-shot";
  const Communicators ranks = start_gpu_job(job);
  Complaints complaints;
  Activity meanwhile, running;
  on_all(3, [&](int r) {
    Stream stream(*ranks[size_t(r)]);
    std::vector<float> buffer(1024, 0.0f);
    const std::vector<Operation> all(size_t(group ? more : 0), sum_of(buffer));
    for (int i = 0; i < 2 + (group ? 0 : more); ++i) {
      if (r == 2 && i == 1) {
        // time is what is tested: how long the others wait is counted
        base::sleep_until(Deadline::after_ms(60));
        const Deadline shown = Deadline::after_seconds(20);
        do meanwhile = ranks[0]->activity();
        while (!meanwhile.window && !shown.passed());
        running = ranks[2]->activity();
      }
      const auto way = i == 0 ? Communicator::Launch::blocking : Communicator::Launch::async;
      complaints.add(r, i == 1 && group ? ranks[size_t(r)]->start_all(all, stream)
                                        : ranks[size_t(r)]->start(sum_of(buffer), stream, way));
      if (i == 0) complaints.add(r, stream.synchronize());
    }
    complaints.add(r, stream.synchronize());
  });
  CHECK(complaints.text() == "");
  REQUIRE(meanwhile.window);
  CHECK(meanwhile.window->missing == std::vector<int>{2});
  CHECK(now_ns() - meanwhile.window->since_ns > 100'000'000);
  CHECK(meanwhile.waits.empty());
  CHECK_FALSE(running.window);
  CHECK_FALSE(ranks[0]->activity().window);
  finalize(ranks);
}

TEST_CASE("nothing is counted unless it is asked for", "[waits]") {
  const Communicators ranks = start_job(2, CommOptions{});
  Complaints complaints;
  on_all(2, [&](int r) {
    Stream stream(*ranks[size_t(r)]);
    std::vector<float> buffer(16, 1.0f);
    // time is what is tested: the other has waited, which would be counted
    if (r == 1) base::sleep_until(Deadline::after_ms(30));
    complaints.add(r,
                   ranks[size_t(r)]->start(sum_of(buffer), stream, Communicator::Launch::blocking));
    complaints.add(r, ranks[size_t(r)]->finalize(Deadline::after_seconds(10)));
  });
  CHECK(complaints.text().empty());
  const Result<WaitSums> sums = ranks[0]->wait_sums();
  REQUIRE(bool(sums));
  CHECK(sums->peers.empty());
}

}  // namespace waits_tests
