#include "cmd/text/progress.h"

#include "base/format.h"

namespace collctl::cmd {

void Progress::phase(int rank, const std::string& name) {
  phases_[rank] = name;
  std::map<std::string, int> counts;
  for (const auto& [unused, phase] : phases_) ++counts[phase];
  std::string line = "starting:";
  for (const auto& [phase, count] : counts) line += format(" {} {}", count, phase);
  text(line);
}

void Progress::text(const std::string& text) {
  if (wanted_) console_.transient(text);
}

void Progress::clear() {
  console_.transient("");
}

}  // namespace collctl::cmd
