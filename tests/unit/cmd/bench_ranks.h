// A whole bench in this process: ranks as threads over loopback addresses, what rank 0 reported
// kept. For the tests of bench_rank; Catch's macros stay on the main thread.
#pragma once
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/socket.h"
#include "cmd/bench.h"
#include "runtime/bootstrap.h"
#include "tests/catch.h"

namespace collctl::cmd::testing {

struct KeepingSink : BenchSink {
  std::vector<BenchHeader> headers;
  std::vector<BenchRow> rows;
  std::vector<DataFault> faults;
  std::vector<std::string> texts;
  void header(const BenchHeader& h) override { headers.push_back(h); }
  void row(const BenchRow& r) override { rows.push_back(r); }
  void progress(const std::string& text) override { texts.push_back(text); }
  void fault(const DataFault& f) override { faults.push_back(f); }
  void phase(int, const std::string& name) override { phases.push_back(name); }
  std::vector<std::string> phases;
};

struct BenchOutcome {
  KeepingSink sink;           // of rank 0
  std::vector<Error> errors;  // of any rank
  std::string first_error() const { return errors.empty() ? "" : errors[0].chain(); }
};

// `on_gpus`: rank r drives GPU r.
inline BenchOutcome run_bench(const BenchSpec& spec, int size, bool on_gpus = false) {
  BenchOutcome outcome;
  auto address = base::parse_address("127.0.0.1:0");
  auto secret = base::random_secret();
  REQUIRE(address);
  REQUIRE(secret);
  auto root = runtime::BootstrapRoot::start({.listen_at = *address, .secret = *secret});
  REQUIRE(root);
  const auto id = runtime::UniqueId::make((*root)->address(), *secret);
  std::vector<KeepingSink> sinks{size_t(size)};
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      BenchSpec own = spec;
      own.device = on_gpus ? rank : -1;
      const Status status = bench_rank(own, id, rank, size, sinks[size_t(rank)]);
      std::lock_guard lock(mutex);
      if (!status) outcome.errors.push_back(status.error());
    });
  for (std::thread& thread : threads) thread.join();
  outcome.sink = std::move(sinks[0]);
  for (int rank = 1; rank < size; ++rank) CHECK(sinks[size_t(rank)].rows.empty());
  return outcome;
}

inline BenchOutcome run_gpu_bench(const BenchSpec& spec, int size) {
  return run_bench(spec, size, true);
}

// A small bench that takes little time.
inline BenchSpec small_bench(kernels::Collective collective) {
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
