// A whole bench in this process: ranks as threads over loopback addresses, what rank 0 reported
// kept. For the tests of bench_rank; Catch's macros stay on the main thread.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "cmd/measure/bench.h"
#include "runtime/bootstrap/bootstrap.h"
#include "tests/catch.h"

namespace collctl::cmd::testing {

inline constexpr double kDeclineSeconds = 20;

struct KeepingSink : BenchSink {
  bool checked_in = false;
  void checks_in() override { checked_in = true; }
  std::vector<BenchHeader> headers;
  std::vector<BenchRow> rows;
  std::vector<DataFault> faults;
  std::vector<std::string> texts;
  std::vector<BenchClosing> closings;
  void on(BenchRecord record) override {
    if (auto* header = std::get_if<BenchHeader>(&record)) headers.push_back(*header);
    if (auto* row = std::get_if<BenchRow>(&record)) rows.push_back(*row);
    if (auto* fault = std::get_if<DataFault>(&record)) faults.push_back(*fault);
    if (auto* closing = std::get_if<BenchClosing>(&record)) closings.push_back(*closing);
  }
  void progress(const std::string& text) override { texts.push_back(text); }
  void phase(int, const std::string& name) override { phases.push_back(name); }
  std::vector<std::string> phases;
};

struct BenchOutcome {
  KeepingSink sink;           // of rank 0
  std::vector<Error> errors;  // of any rank
  std::string first_error() const { return errors.empty() ? "" : errors[0].chain(); }
};

// One rank in a thread for each sink; the errors of those that had one, as they came. `run` is what
// a rank does with the job's id. The others hear of a rank that fails before its check-in, as they
// do from a launcher.
template <class Sink>
std::vector<Error> run_ranks(
    std::vector<Sink>& sinks,
    const std::function<Status(const runtime::UniqueId&, int rank, Sink&)>& run) {
  auto address = base::parse_address("127.0.0.1:0");
  auto secret = base::random_secret();
  REQUIRE(address);
  REQUIRE(secret);
  auto root = runtime::BootstrapRoot::start({.listen_at = *address, .secret = *secret});
  REQUIRE(root);
  const auto id = runtime::UniqueId::make((*root)->address(), *secret);
  std::vector<Error> errors;
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int rank = 0; rank < int(sinks.size()); ++rank)
    threads.emplace_back([&, rank] {
      const Status status = run(id, rank, sinks[size_t(rank)]);
      if (!status && !sinks[size_t(rank)].checked_in)
        (void)runtime::decline_start(id, rank, int(sinks.size()), "host" + std::to_string(rank),
                                     status.error(), Deadline::after_seconds(kDeclineSeconds));
      const std::lock_guard lock(mutex);
      if (!status) errors.push_back(status.error());
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// `on_gpus`: rank r drives GPU r. `change`, if any: what is different on a rank.
template <class Sink>
std::vector<Error> run_bench_ranks(const BenchSpec& spec, std::vector<Sink>& sinks, bool on_gpus,
                                   const std::function<void(BenchSpec&, int rank)>& change = {}) {
  return run_ranks<Sink>(sinks, [&](const runtime::UniqueId& id, int rank, Sink& sink) {
    BenchSpec own = spec;
    own.device = on_gpus ? rank : -1;
    if (change) change(own, rank);
    return bench_rank(own, id, rank, int(sinks.size()), sink);
  });
}

// Ranks of a task, each with a spec of its own.
template <class Sink>
std::vector<Error> run_task_ranks(const std::vector<TaskSpec>& specs, std::vector<Sink>& sinks) {
  return run_ranks<Sink>(sinks, [&](const runtime::UniqueId& id, int rank, Sink& sink) {
    return run_task({specs[size_t(rank)], id, rank, int(sinks.size()), sink});
  });
}

// A task's records, as they came.
struct RecordSink : TaskSink {
  bool checked_in = false;
  void checks_in() override { checked_in = true; }
  std::vector<std::string> records, texts, phases;
  Status record(const std::string& line) override {
    records.push_back(line);
    return {};
  }
  void progress(const std::string& text) override { texts.push_back(text); }
  void phase(int, const std::string& name) override { phases.push_back(name); }
};

inline BenchOutcome run_bench(const BenchSpec& spec, int size, bool on_gpus = false) {
  BenchOutcome outcome;
  std::vector<KeepingSink> sinks{size_t(size)};
  outcome.errors = run_bench_ranks(spec, sinks, on_gpus);
  outcome.sink = std::move(sinks[0]);
  for (int rank = 1; rank < size; ++rank) CHECK(sinks[size_t(rank)].rows.empty());
  return outcome;
}

inline BenchOutcome run_gpu_bench(const BenchSpec& spec, int size) {
  return run_bench(spec, size, true);
}

inline uint64_t wrong_timings(const BenchOutcome& outcome) {
  uint64_t wrong = 0;
  for (const BenchRow& row : outcome.sink.rows)
    for (const Timing* timing : {&row.out_of_place, &row.in_place})
      wrong += timing->measured && timing->wrong != 0;
  return wrong;
}

// A small bench that takes little time.
inline BenchSpec small_bench(const BenchOp& collective) {
  BenchSpec spec;
  spec.collective = collective;
  spec.min_bytes = 0;
  spec.max_bytes = 1000;
  spec.step_bytes = 333;
  spec.iterations = 2;
  spec.warmup = 1;
  return spec;
}

}  // namespace collctl::cmd::testing
