// Formatting for messages: format("{} of {}", a, b), checked when compiled (fmt, declarations only:
// cheap to include). An object rather than a function, so that std::format, which newer standard
// headers bring along, is never found beside it. Not for headers that nvcc sees. Threads: any.
#pragma once
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/host.h"

namespace collctl::base {

struct Formatter {
  template <class... T>
  std::string operator()(fmt::format_string<T...> text, T&&... values) const {
    return fmt::format(text, std::forward<T>(values)...);
  }
};
inline constexpr Formatter format{};

// The text without what it begins with, if it does: who reports has named the host already.
inline std::string without_head(std::string text, std::string_view head) {
  if (text.starts_with(head)) text.erase(0, head.size());
  return text;
}

}  // namespace collctl::base
// A host in a text is its name.
template <>
struct fmt::formatter<collctl::base::Host> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const collctl::base::Host& host, Context& context) const {
    return fmt::formatter<std::string_view>::format(host.name, context);
  }
};
namespace collctl {
using base::format;
}
