#include "base/markup.h"

namespace collctl::base {

std::string escaped_markup(std::string_view text, const std::function<std::string(char)>& other) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += other(c);
  }
  return safe;
}

}  // namespace collctl::base
