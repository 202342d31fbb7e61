// Cuts a byte stream into whole lines. Used by LocalJob, one splitter per stream of a rank; one
// thread. Binary safe: only '\n' matters. A line longer than kMaxLine is handed out in pieces, the
// last line may lack its end; both are marked `open`, so that the bytes can be put back exactly.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace collctl::launcher {

inline constexpr size_t kMaxLine = 1 << 20;

struct Line {
  std::string text;   // without the newline
  bool open = false;  // no newline followed
};

class LineSplitter {
 public:
  // Appends the lines that `bytes` completes.
  void feed(std::string_view bytes, std::vector<Line>& out);
  // The rest when the stream has ended.
  std::optional<Line> finish();

 private:
  std::string rest_;
};

}  // namespace collctl::launcher
