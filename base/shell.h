// Words for a POSIX shell. Pure.
#pragma once
#include <string>

namespace collctl::base {

// The text as one word, whatever is in it; and the same without quotes where it needs none.
std::string shell_quoted(const std::string& text);
std::string shell_word(const std::string& text);

}  // namespace collctl::base
