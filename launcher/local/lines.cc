#include "launcher/local/lines.h"

#include <utility>

namespace collctl::launcher {

void LineSplitter::feed(std::string_view bytes, std::vector<Line>& out) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(whole ? end + 1 : bytes.size());
    while (rest_.size() + piece.size() > kMaxLine) {
      const size_t fits = kMaxLine - rest_.size();
      rest_.append(piece.substr(0, fits));
      piece.remove_prefix(fits);
      out.push_back({std::exchange(rest_, {}), true});
    }
    rest_.append(piece);
    if (whole) out.push_back({std::exchange(rest_, {}), false});
  }
}

std::optional<Line> LineSplitter::finish() {
  if (rest_.empty()) return std::nullopt;
  return Line{std::exchange(rest_, {}), true};
}

}  // namespace collctl::launcher
