// The device window, and LL128's test in it, on ranks as threads over the fake driver's GPUs.
#include "runtime/executor/torn_store.h"

#include <cstring>

#include "tests/unit/runtime/executor/rank_window.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace executor_torn_store_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using runtime::testing::host_launcher;
using runtime::testing::set_up_gpus;

namespace {

constexpr size_t kWords = 16;  // of a line; the last is its flag

uint64_t load(const uint64_t* word) {
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load();
}

// Lines of the last two rounds, the flag last.
int write_whole(void* lines, uint32_t count, uint32_t rounds, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    auto* word = static_cast<uint64_t*>(lines);
    for (uint64_t round = std::max(2u, rounds) - 1; round <= rounds; ++round)
      for (size_t i = 0; i < count * kWords; ++i) std::atomic_ref<uint64_t>(word[i]).store(round);
  });
}
// A path on which the flag of the very last line overtakes its data.
int write_torn(void* lines, uint32_t count, uint32_t rounds, void* stream) {
  if (rounds == 0) return write_whole(lines, count, rounds, stream);
  if (const int error = write_whole(lines, count, rounds - 1, stream); error != 0) return error;
  return fake_cuda::enqueue(stream, [=] {
    auto* word = static_cast<uint64_t*>(lines);
    for (size_t i = 0; i < count; ++i)
      std::atomic_ref<uint64_t>(word[i * kWords + kWords - 1]).store(rounds);
  });
}
// Looks at each line when its flag has come to the last round.
int read_lines(void* lines, uint32_t count, uint32_t rounds, uint32_t* torn, const uint32_t*,
               int64_t timeout_ns, void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    const auto* word = static_cast<const uint64_t*>(lines);
    const Deadline deadline = Deadline::after_ns(timeout_ns);
    uint32_t old = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t* line = word + i * kWords;
      while (load(line + kWords - 1) < rounds) {
        if (deadline.passed()) {
          std::atomic_ref<uint32_t>(*torn).store(kernels::cuda::kTornStoreAborted);
          return;
        }
        base::yield_thread();
      }
      if (load(line) < rounds) ++old;
    }
    std::atomic_ref<uint32_t>(*torn).store(old);
  });
}

struct Ranks {
  int count = 3;
  // The launcher that each rank writes with.
  std::function<kernels::cuda::Launcher(int)> launcher;
  double wait_s = 10;
  bool loses_window = false;  // on all ranks
  // The rank whose kernels do not end before release() is called; -1: none.
  int unended = -1;
  std::function<void()> release;
};

// The test's result on each rank; all memory of the window is zero afterwards, unless it is lost.
std::vector<std::string> torn_stores_of(const Ranks& ranks) {
  std::vector<kernels::cuda::Launcher> launchers;
  for (int r = 0; r < ranks.count; ++r) launchers.push_back(ranks.launcher(r));
  std::vector<std::string> said(size_t(ranks.count));
  const Job job({.size = ranks.count});
  require_all_ok(job.run([&](Bootstrap& bootstrap) -> Status {
    const int me = bootstrap.rank();
    COLL_ASSIGN(const RankWindow made, make_rank_window(bootstrap, 200'000));
    const auto& [device, window] = made;
    const kernels::cuda::PeerMemory memory = window->memory();
    TornStoreOptions options = torn_stores_in_window(memory, window->part_bytes());
    options.device = device;
    options.launcher = &launchers[size_t(me)];
    options.bootstrap = &bootstrap;
    options.wait_s = ranks.wait_s;
    COLL_ASSIGN(TornStoreVerdict verdict, test_torn_stores(options, soon()));
    said[size_t(me)] = verdict.why;
    COLL_TRY(expect(verdict.memory_lost == ranks.loses_window, "the window lost, or not"));
    COLL_TRY(
        expect((verdict.unended != nullptr) == (me == ranks.unended), "an unended test, or none"));
    if (verdict.unended != nullptr) {
      COLL_TRY(expect(!verdict.unended->ended(), "kernels that run"));
      ranks.release();
      while (!verdict.unended->ended()) base::sleep_until(Deadline::after_ms(1));
    }
    COLL_TRY(bootstrap.barrier(soon()));
    if (verdict.memory_lost) return bootstrap.finish(soon());
    const uint8_t* part = memory.base + uint64_t(me) * memory.stride;
    COLL_TRY(expect(std::count(part, part + window->part_bytes(), 0) == 200'000, "zeros"));
    return bootstrap.finish(soon());
  }));
  return said;
}

kernels::cuda::Launcher with(int (*write)(void*, uint32_t, uint32_t, void*)) {
  kernels::cuda::Launcher table = host_launcher();
  table.torn_store_write = write;
  table.torn_store_read = read_lines;
  return table;
}

}  // namespace

TEST_CASE("lines that come whole pass on every rank", "[gpu][torn_store]") {
  for (const int n : {2, 3, 5}) {
    set_up_gpus(n);
    Ranks ranks;
    ranks.count = n;
    ranks.launcher = [](int) { return with(write_whole); };
    CHECK(torn_stores_of(ranks) == std::vector<std::string>(size_t(n)));
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("torn lines are told of with both ranks, on every rank", "[gpu][torn_store]") {
  set_up_gpus(3);
  Ranks ranks;
  // 200000 bytes for two senders: 781 lines each, of which 512 are used.
  ranks.launcher = [](int r) { return with(r == 2 ? write_torn : write_whole); };
  for (const std::string& text : torn_stores_of(ranks))
    CHECK(text == "512 lines of rank 2 arrived torn at rank 0");
}

// A reader that heeds neither its deadline nor the word to abort.
std::atomic<bool> released{false};
int read_for_ever(void* lines, uint32_t count, uint32_t rounds, uint32_t* torn,
                  const uint32_t* aborted, int64_t timeout_ns, void* stream) {
  if (rounds > 0) {
    const int error = fake_cuda::enqueue(stream, [] {
      const Deadline deadline = Deadline::after_seconds(30);
      while (!released && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
    });
    if (error != 0) return error;
  }
  return read_lines(lines, count, rounds, torn, aborted, timeout_ns, stream);
}

TEST_CASE("a test of lines that does not end takes the window with it", "[gpu][torn_store]") {
  set_up_gpus(3);
  released = false;
  Ranks ranks;
  ranks.launcher = [](int r) {
    kernels::cuda::Launcher table = with(write_whole);
    if (r == 1) table.torn_store_read = read_for_ever;
    return table;
  };
  ranks.wait_s = 2;  // enough for the other two
  ranks.loses_window = true;
  ranks.unended = 1;
  ranks.release = [] { released = true; };
  for (const std::string& text : torn_stores_of(ranks)) {
    INFO(text);
    CHECK(text.starts_with("the torn-store test failed on rank 1: waits for GPU 1"));
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("a test of lines that cannot be made is no pass", "[gpu][torn_store]") {
  set_up_gpus(2);
  Ranks ranks;
  ranks.count = 2;
  ranks.launcher = [](int r) { return r == 1 ? host_launcher() : with(write_whole); };
  for (const std::string& text : torn_stores_of(ranks))
    CHECK(text == "the torn-store test failed on rank 1: the launcher's own words");
}

}  // namespace executor_torn_store_tests
