// Words for a POSIX shell. Pure.
#pragma once
#include <string>

namespace collctl::base {

// The text as one word, whatever is in it.
std::string shell_quoted(const std::string& text);

}  // namespace collctl::base
