// The burn-in by the real binary, on cores: right cores pass, a wrong bit is named.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace burn_cli_tests {

using nlohmann::json;

const std::string kBurn = "{} burn-test --cores --burn-for 0 --memory 1M ";

TEST_CASE("burn-test: cores that are right end with 0, a wrong bit with 7 and its place", "[cli]") {
  const Ran healthy = shell(kBurn + "--json");
  CHECK(healthy.code == 0);
  const json report = json::parse(healthy.out);
  CHECK(report["schema"] == "collctl.burn-test/1");
  REQUIRE(report["devices"].size() >= 2);
  for (const json& device : report["devices"]) CHECK(device["wrong"].empty());
  const std::string core = report["devices"][1]["device"];
  const std::string number = core.substr(core.rfind(' ') + 1);
  for (const std::string what : {"core", "memory"}) {
    const std::string fault = "COLLCTL_BURN_FAULT=" + what + ":device=" + number;
    const Ran bad = shell(kBurn, fault);
    CHECK(bad.code == 7);
    CHECK(bad.out.find("WRONG DATA: " + what + " in round 2, ") != std::string::npos);
    const json wrong = json::parse(shell(kBurn + "--json", fault).out)["devices"][1]["wrong"];
    REQUIRE(wrong.size() == 1);
    CHECK(wrong[0]["count"] == 1);
    CHECK(wrong[0]["expected"] != wrong[0]["found"]);
  }
  CHECK(shell(kBurn, "COLLCTL_BURN_FAULT=nonsense").code == 2);
}

TEST_CASE("check --burn asks for its suite, beside --only as well", "[cli]") {
  const auto has = [](const std::string& line) {
    const std::string text = shell("{} check --list " + line).out;
    return text.find("  burn             -") == std::string::npos;
  };
  CHECK_FALSE(has(""));
  CHECK(has("--burn 6"));
  CHECK(has("--level full"));
  CHECK(has("--level full --soak 1h"));
  CHECK(has("--only burn"));
  CHECK(has("--only node --burn 6"));
  CHECK(shell("{} check --burn 6 --skip burn --list").code == 2);
}

}  // namespace burn_cli_tests
