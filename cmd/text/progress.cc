#include "cmd/text/progress.h"

#include "base/clock.h"
#include "base/format.h"

namespace collctl::cmd {

Progress::Progress(Console& console, bool wanted)
    : console_(console), wanted_(wanted && console.err_is_terminal()) {}

// Ten times a second is as much as eyes and terminals want.
bool Progress::due() {
  const int64_t now = now_ns();
  if (!wanted_ || now < next_at_ns_) return false;
  next_at_ns_ = now + 100'000'000;
  return true;
}

void Progress::phase(int rank, const std::string& name) {
  phases_[rank] = name;
  if (!due()) return;
  std::map<std::string, int> counts;
  for (const auto& [unused, phase] : phases_) ++counts[phase];
  std::string line = "starting:";
  for (const auto& [phase, count] : counts) line += format(" {} {}", count, phase);
  console_.transient(line);
}

void Progress::text(const std::string& text) {
  if (due()) console_.transient(text);
}

void Progress::clear() {
  console_.transient("");
}

}  // namespace collctl::cmd
