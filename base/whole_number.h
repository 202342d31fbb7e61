// Numbers in texts. Pure; any thread.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace collctl::base {

// The number that a text is, and nothing else besides; none where it does not fit.
template <class T = int>
std::optional<T> whole_number(std::string_view text, int base = 10) {
  T number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, base);
  return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

}  // namespace collctl::base
