// Durations as people write them, and dates.
#include <ctime>

#include "base/env.h"
#include "cmd/text/sizes.h"
#include "tests/catch.h"

namespace text_sizes_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("a duration: a number with a unit, larger units first", "[text]") {
  const auto seconds = [](const char* text) {
    const auto value = base::parse_seconds(text);
    return value ? *value : -1;
  };
  CHECK(seconds("90") == 90);
  CHECK(seconds("90s") == 90);
  CHECK(seconds("1.5m") == 90);
  CHECK(seconds("2h") == 7200);
  CHECK(seconds("1h30m") == 5400);
  CHECK(seconds("1d2h3m4s") == 93784);
  CHECK(seconds("500ms") == 0.5);
  CHECK(seconds("1s20ms") == 1.02);
  CHECK(seconds("0.02") == 0.02);
  CHECK(seconds("1e3") == 1000);
  CHECK(seconds("0") == 0);
  for (const char* bad : {"", "h", "2x", "1h30", "30m1h", "1h1h", "-1s", "1..5s", "1e9h", " 1s",
                          "s1", "-1", "1e", "1ms1s", "nan", "1e999"}) {
    INFO(bad);
    CHECK(seconds(bad) == -1);
  }
  CHECK(duration_text(45) == "45 s");
  CHECK(duration_text(125) == "2 min 5 s");
  CHECK(duration_text(7200) == "2 h");
  CHECK(duration_text(7560) == "2 h 6 min");
}

TEST_CASE("a date says its zone, and UTC's leads back", "[text]") {
  CHECK(utc_date(1'800'000'000) == "2027-01-15T08:00:00Z");
  CHECK(unix_of("2027-01-15T08:00:00Z") == 1'800'000'000);
  const std::string here = local_date(1'800'000'000);
  REQUIRE(here.size() == std::string_view("2027-01-15T08:00:00+00:00").size());
  std::tm parts{};
  REQUIRE(::strptime(here.c_str(), "%Y-%m-%dT%H:%M:%S%z", &parts) == here.c_str() + here.size());
  const int64_t offset = parts.tm_gmtoff;
  CHECK(int64_t(::timegm(&parts)) - offset == 1'800'000'000);
  for (const char* other : {"", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00Zz"})
    CHECK(unix_of(other) == 0);
}

}  // namespace text_sizes_tests
