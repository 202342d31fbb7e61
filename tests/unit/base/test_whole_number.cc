#include "base/whole_number.h"

#include <cstdint>

#include "tests/catch.h"

namespace base_whole_number_tests {

using collctl::base::whole_number;

TEST_CASE("a number is a whole text, and fits", "[whole_number]") {
  CHECK(whole_number("42") == 42);
  CHECK(whole_number("-7") == -7);
  CHECK(whole_number("ff", 16) == 255);
  CHECK(whole_number<uint64_t>("18446744073709551615") == ~uint64_t{0});
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "2147483648"}) CHECK(!whole_number(text));
  CHECK(!whole_number<uint64_t>("-1"));
}

}  // namespace base_whole_number_tests
