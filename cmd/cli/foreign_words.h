// Words as other tools take them. Pure; part of cmd/cli.
#pragma once
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>

namespace collctl::cmd {

inline bool has_word(std::string_view words, const std::string& word) {
  return word.find(' ') == std::string::npos && !word.empty() &&
         words.find(" " + word + " ") != std::string_view::npos;
}

inline std::string small_letters(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return text;
}

inline bool digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace collctl::cmd
