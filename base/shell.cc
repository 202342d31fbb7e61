#include "base/shell.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

namespace collctl::base {

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(uint8_t(c)) || std::string_view("_@%+=:,./-").find(c) != std::string::npos;
  });
  return plain ? word : shell_quoted(word);
}

}  // namespace collctl::base
