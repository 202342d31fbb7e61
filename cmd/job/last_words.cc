#include "cmd/job/last_words.h"

#include "base/log.h"

namespace collctl::cmd {
namespace {

constexpr size_t kLines = 5;
constexpr size_t kMostOfLine = 400;

}  // namespace

void LastWords::add(const launcher::Event& line) {
  if (!line.is_stderr || line.line.empty()) return;
  // Whoever knocks at a rank's door must not drown what the rank itself has to say.
  if (line.line.find(base::kOfStrangers) != std::string::npos) return;
  std::deque<std::string>& mine = lines_[line.rank];
  mine.push_back(line.line.substr(0, kMostOfLine));
  if (mine.size() > kLines) mine.pop_front();
}

std::string LastWords::of(int rank) const {
  const auto found = lines_.find(rank);
  if (found == lines_.end()) return {};
  std::string text = "its last lines on standard error:";
  for (const std::string& line : found->second) text += "\n  " + line;
  return text;
}

}  // namespace collctl::cmd
