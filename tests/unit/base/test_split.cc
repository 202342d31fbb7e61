#include "base/split.h"

#include "tests/catch.h"

namespace base_split_tests {

using collctl::base::lines_of;
using collctl::base::split;
using Parts = std::vector<std::string_view>;

TEST_CASE("a text in parts has the empty ones as well", "[split]") {
  CHECK(split("a,b", ',') == Parts{"a", "b"});
  CHECK(split(",a,,", ',') == Parts{"", "a", "", ""});
  CHECK(split("", ',') == Parts{""});
}

TEST_CASE("lines end where the text does or at a newline", "[split]") {
  CHECK(lines_of("a\nb") == Parts{"a", "b"});
  CHECK(lines_of("a\n\nb\n") == Parts{"a", "", "b"});
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == Parts{""});
}

}  // namespace base_split_tests
