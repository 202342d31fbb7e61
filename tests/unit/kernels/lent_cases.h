// Operations whose data may be lent, on ranks as threads over fifos.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cpu/block_cpu.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"

namespace cpu_tests {

inline constexpr uint8_t kFrom16 = 4;  // bytes, as a power of two
inline constexpr int64_t kShortTimeoutNs = 150'000'000;

inline Work lent_work(const Operation& operation) {
  Work work = operation.work();
  work.mark = kFrom16;
  return work;
}

// Every rank runs the cases in turn; the first thing that is wrong.
inline std::string run_cases(FifoFixture& fixture, const std::vector<Case>& cases) {
  std::mutex mutex;
  std::string first;
  fixture.run_all([&](int rank) {
    CpuContext context = fixture.context();
    context.take_back = [](void*) {};
    for (const Case& c : cases) {
      Operation operation(c, rank, fixture.geometry.nranks);
      const bool done = run_work(lent_work(operation), fixture.links(rank), context);
      const std::string wrong =
          done ? operation.check() : describe(c, rank, fixture.geometry.nranks) + ": ended";
      if (!context.lent.empty() || !wrong.empty()) {
        const std::lock_guard lock(mutex);
        if (first.empty()) first = wrong.empty() ? "something is still lent" : wrong;
      }
      if (!done) return fixture.abort();
    }
  });
  return first;
}

}  // namespace cpu_tests
