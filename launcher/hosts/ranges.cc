#include "launcher/hosts/ranges.h"

#include <algorithm>
#include <optional>

#include "base/format.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostDigits = 9;
constexpr size_t kMostBrackets = 8;

struct Range {
  uint64_t first = 0, last = 0, step = 1;
  size_t width = 0;  // of the digits; 0: as they come
  uint64_t count() const { return (last - first) / step + 1; }
};

struct Piece {  // a literal, then a bracket (the last piece has none)
  std::string_view literal;
  std::vector<Range> ranges;
  size_t at = 0;  // of the bracket
  uint64_t count = 1;
};

class Parser {
 public:
  Parser(std::string_view text, size_t most) : text_(text), most_(most) {}
  ExpandedNames run();

 private:
  bool fail(std::string expected, size_t at) {
    if (failure_.ok()) failure_ = {{}, std::move(expected), at};
    return false;
  }
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::optional<uint64_t> number(const char* what);
  bool range(Range& range);
  bool bracket(Piece& piece);

  std::string_view text_;
  const size_t most_;
  size_t at_ = 0;
  ExpandedNames failure_;
};

std::optional<uint64_t> Parser::number(const char* what) {
  const size_t from = at_;
  uint64_t value = 0;
  while (now() >= '0' && now() <= '9') {
    if (at_ - from == kMostDigits) {
      fail(format("a number of at most {} digits", kMostDigits), from);
      return std::nullopt;
    }
    value = value * 10 + uint64_t(now() - '0');
    ++at_;
  }
  if (at_ > from) return value;
  fail(what, at_);
  return std::nullopt;
}

bool Parser::range(Range& range) {
  const size_t from = at_;
  const auto first = number("a number");
  if (!first) return false;
  range.first = range.last = *first;
  if (text_[from] == '0') range.width = at_ - from;
  if (now() != '-') return true;
  const size_t last_at = ++at_;
  const auto last = number("the last number of the range");
  if (!last) return false;
  if (*last < *first) return fail(format("a number not below {}", *first), last_at);
  range.last = *last;
  if (now() != ':') return true;
  const size_t step_at = ++at_;
  const auto step = number("a step, 1 or more");
  if (!step) return false;
  if (*step == 0) return fail("a step, 1 or more", step_at);
  range.step = *step;
  return true;
}

bool Parser::bracket(Piece& piece) {
  piece.at = at_++;
  piece.count = 0;
  for (;;) {
    Range next;
    if (!range(next)) return false;
    piece.count += next.count();  // at most 1e9 each, and the text is bounded: no overflow
    if (piece.count > most_) return fail(format("at most {} hosts of one range", most_), piece.at);
    piece.ranges.push_back(next);
    if (now() == ']') break;
    if (now() != ',') return fail("',' or ']'", at_);
    ++at_;
  }
  ++at_;
  return true;
}

std::string numbered(uint64_t value, size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

// Every name so far, continued by the piece.
std::vector<std::string> continued(const std::vector<std::string>& names, const Piece& piece) {
  std::vector<std::string> longer;
  longer.reserve(names.size() * piece.count);
  for (const std::string& name : names) {
    const std::string start = name + std::string(piece.literal);
    if (piece.ranges.empty()) longer.push_back(start);
    for (const Range& range : piece.ranges)
      for (uint64_t value = range.first; value <= range.last; value += range.step)
        longer.push_back(start + numbered(value, range.width));
  }
  return longer;
}

ExpandedNames Parser::run() {
  std::vector<Piece> pieces;
  uint64_t total = 1;
  while (at_ < text_.size()) {
    Piece piece;
    const size_t from = at_;
    at_ = std::min(text_.find_first_of("[]", at_), text_.size());
    piece.literal = text_.substr(from, at_ - from);
    if (now() == ']') fail("'[' before ']'", at_);
    if (pieces.size() == kMostBrackets) fail(format("at most {} brackets", kMostBrackets), at_);
    if (!failure_.ok() || (now() == '[' && !bracket(piece))) return failure_;
    total *= piece.count;  // below most_ * most_
    if (total > most_) {
      fail(format("at most {} hosts of one name", most_), piece.at);
      return failure_;
    }
    pieces.push_back(std::move(piece));
  }
  ExpandedNames result;
  result.names = {""};
  for (const Piece& piece : pieces) result.names = continued(result.names, piece);
  return result;
}

}  // namespace

ExpandedNames expand_ranges(std::string_view pattern, size_t most) {
  return Parser(pattern, most).run();
}

}  // namespace collctl::launcher
