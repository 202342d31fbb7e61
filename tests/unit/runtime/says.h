// Words that tests of ranks use often: a deadline that no good run comes near, and whether an error
// has these words.
#pragma once
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace collctl::runtime::testing {

inline Deadline soon() {
  return Deadline::after_seconds(60);
}

inline bool says(const Error& error, std::string_view words) {
  return error.chain().find(words) != std::string::npos;
}

}  // namespace collctl::runtime::testing
