// Durations as people write them.
#include "cmd/text/sizes.h"
#include "tests/catch.h"

namespace text_sizes_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("a duration: a number with a unit, larger units first", "[text]") {
  const auto seconds = [](const char* text) {
    const auto value = parse_duration(text);
    return value ? *value : -1;
  };
  CHECK(seconds("90") == 90);
  CHECK(seconds("90s") == 90);
  CHECK(seconds("1.5m") == 90);
  CHECK(seconds("2h") == 7200);
  CHECK(seconds("1h30m") == 5400);
  CHECK(seconds("1d2h3m4s") == 93784);
  for (const char* bad : {"", "h", "2x", "1h30", "30m1h", "1h1h", "-1s", "0", "1..5s", "1e9h",
                          " 1s", "9999d", "s1"}) {
    INFO(bad);
    CHECK(seconds(bad) == -1);
  }
  CHECK(duration_text(45) == "45 s");
  CHECK(duration_text(125) == "2 min 5 s");
  CHECK(duration_text(7200) == "2 h");
  CHECK(duration_text(7560) == "2 h 6 min");
}

}  // namespace text_sizes_tests
