// Ranges in host names: node[01-16,20-24:2]-ib[0-1]. Pure; used by the hostfile. A range is
// FIRST[-LAST[:STEP]]; the leading zeros of FIRST set the width. With several brackets the last one
// runs fastest.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace collctl::launcher {

struct ExpandedNames {
  std::vector<std::string> names;
  // The error, if any: what was expected, and at which byte of the pattern.
  std::string expected;
  size_t at = 0;
  bool ok() const { return expected.empty(); }
};

// `most`: more names than that are an error, found before any is made.
ExpandedNames expand_ranges(std::string_view pattern, size_t most);

}  // namespace collctl::launcher
