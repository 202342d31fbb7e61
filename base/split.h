// Parts of a text. They are of the text, which must outlive them. Pure; any thread.
#pragma once
#include <string_view>
#include <vector>

namespace collctl::base {

// All that stands between separators, empty parts as well; of an empty text one.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size(); at += parts.back().size() + 1)
    parts.push_back(text.substr(at, text.find(separator, at) - at));
  return parts;
}

// Without their ends, which the last one may lack.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  auto lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace collctl::base
