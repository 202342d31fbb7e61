#include "base/printable.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::base {
namespace {

constexpr std::string_view kOurs[] = {"\x1b[0m",  "\x1b[1m",  "\x1b[31m",   "\x1b[32m",
                                      "\x1b[33m", "\x1b[36m", "\x1b[1;31m", "\x1b[1;33m"};

// Bytes of the UTF-8 character at the front: 0 where there is none.
size_t character(std::string_view text) {
  const auto at = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t first = at(0);
  const size_t size = first < 0x80                    ? 1
                      : first >= 0xc2 && first < 0xe0 ? 2
                      : first >= 0xe0 && first < 0xf0 ? 3
                      : first >= 0xf0 && first < 0xf5 ? 4
                                                      : 0;
  if (size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view text, bool colours) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t size = character(text);
    const uint8_t first = uint8_t(text[0]);
    if (colours && first == 0x1b)
      for (const std::string_view ours : kOurs)
        if (text.starts_with(ours)) size = ours.size();
    if (size == 0 ||
        (size == 1 && (first < 0x20 || first == 0x7f) && first != '\n' && first != '\t'))
      out += format("\\x{:02x}", first);
    else if (size == 2 && first == 0xc2 && uint8_t(text[1]) < 0xa0)
      out += format("\\u{:04x}", uint8_t(text[1]));
    else
      out += text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

}  // namespace collctl::base
