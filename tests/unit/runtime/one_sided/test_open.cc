// Opening one-sided operations where a rank lacks what it takes: all ranks open them, or none.
#include <optional>
#include <set>

#include "runtime/one_sided/one_sided.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/few_files.h"
#include "tests/unit/runtime/window/window_job.h"

namespace one_sided_open_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// One-sided operations over sockets; `odd` has room for `left` more descriptors when it opens them.
// 0: opened; 1: all memory lacked, and the communicator goes on; 2: that was its end; more: as it
// should not be.
int open_with_few_files(Communicator& c, int odd, size_t left) {
  // Ranks know each other: nobody has to connect any more for the registration of the board.
  auto memory = allocate_window_memory(100);
  if (!memory) return 9;
  const WindowRange range{.address = *memory, .bytes = 100};
  const auto known = c.register_windows({&range, 1}, soon());
  if (!known || !c.deregister_windows(*known, soon()) || !free_window_memory(*memory)) return 10;
  std::optional<FewFiles> few;
  if (c.rank() == odd) few.emplace(left);
  const int64_t start = now_ns();
  auto ops = OneSided::open(c, soon());
  few.reset();
  // Nobody waits for the time that opening may take; a rank that turns others away, as long as it
  // might be crowded by strangers.
  if (base::seconds_since(start) > base::kTurnedAwaySeconds + 5) return 14;
  if (ops) {
    if (!(*ops)->barrier(soon())) return 11;
    ops->reset();
    return c.finalize(soon()) ? 0 : 15;
  }
  const Error& error = ops.error();
  if (error.code != ErrorCode::unavailable) {
    std::fputs(format("rank {}: {}\n", c.rank(), error.chain()).c_str(), stderr);
    return 12;
  }
  if (!c.async_error()) return 2;
  return c.finalize(soon()) ? 1 : 16;
}

}  // namespace

// The others do not wait for a rank that fails while ranks connect, dialling or dialled.
TEST_CASE("descriptors run out while one-sided operations are opened", "[user_window][one_sided]") {
  CommOptions options;
  options.transport = "net";
  std::set<int> seen;
  for (const int odd : {0, 1, 2})
    for (const size_t left : {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 20}) {
      // Each number once, each rank with several.
      if (!test::nightly() && (left % 2 == 1 || (left / 2 + size_t(odd)) % 3 != 0)) continue;
      CAPTURE(odd, left);
      const auto ends = in_processes(
          3, [&](Communicator& c) { return open_with_few_files(c, odd, left); }, options);
      CHECK(ends == std::vector<int>(3, ends[0]));
      CHECK(ends[0] <= 2);
      seen.insert(ends.begin(), ends.end());
    }
  CHECK(seen == std::set<int>{0, 1, 2});
}

}  // namespace one_sided_open_tests
