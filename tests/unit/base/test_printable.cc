#include "base/printable.h"

#include "tests/catch.h"

namespace printable_tests {

using collctl::base::printable;

TEST_CASE("nothing that a terminal obeys is left in words from elsewhere") {
  CHECK(printable("rank 3: ready\n\tdone") == "rank 3: ready\n\tdone");
  CHECK(printable("Größe 5 µs → 日本 🙂") == "Größe 5 µs → 日本 🙂");
  CHECK(printable("\x1b]0;owned\a") == "\\x1b]0;owned\\x07");
  CHECK(printable("\x1b[2J\x1b[H") == "\\x1b[2J\\x1b[H");
  CHECK(printable("all well\rFAILED") == "all well\\x0dFAILED");
  CHECK(printable(std::string("a\0b\x7f", 4)) == "a\\x00b\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\u009b2J");  // C1 in UTF-8
  CHECK(printable("\x9b"
                  "2J") == "\\x9b2J");  // and as one byte
  CHECK(printable("\xc3(\xe2\x82") == "\\xc3(\\xe2\\x82");
  CHECK(printable("\xc0\x9b\xf8") == "\\xc0\\x9b\\xf8");
}

TEST_CASE("colours of our own stay where colours are shown, others do not") {
  CHECK(printable("\x1b[1;31merror:\x1b[0m x", true) == "\x1b[1;31merror:\x1b[0m x");
  CHECK(printable("\x1b[1;31merror:\x1b[0m x") == "\\x1b[1;31merror:\\x1b[0m x");
  CHECK(printable("\x1b[8mhidden\x1b[1A", true) == "\\x1b[8mhidden\\x1b[1A");
}

}  // namespace printable_tests
