// Formatting for messages: format("{} of {}", a, b), checked when compiled (fmt, declarations only:
// cheap to include). An object rather than a function, so that std::format, which newer standard
// headers bring along, is never found beside it. Not for headers that nvcc sees. Threads: any.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

namespace collctl::base {

struct Formatter {
  template <class... T>
  std::string operator()(fmt::format_string<T...> text, T&&... values) const {
    return fmt::format(text, std::forward<T>(values)...);
  }
};
inline constexpr Formatter format{};

}  // namespace collctl::base
namespace collctl {
using base::format;
}
