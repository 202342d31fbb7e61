// A folder of checks, written by the real binary and told by it.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/cli/run_binary.h"

namespace cli_history_tests {

using collctl::format;
using nlohmann::json;

namespace {

const std::string kCheck = "check --device cpu --level quick -e 1K --only node ";

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("checks with a fault in one of them, and what the trend says after each", "[cli]") {
  const TemporaryFolder folder;
  const std::string history = "--history " + folder / "history ";
  const auto trend = [&] {
    const Ran ran = run_collctl("report --json --trend " + folder / "history");
    INFO(ran.err);
    json all = json::parse(ran.out);
    all["code"] = ran.code;
    return all;
  };
  const Ran good = run_collctl(kCheck + history);
  INFO(good.out << good.err);
  REQUIRE(good.code == 0);
  json all = trend();
  CHECK(all["code"] == 0);
  CHECK(all["runs"].size() == 1);
  CHECK(all["hosts"][0]["state"] == "well");
  CHECK_FALSE(all["figures"].empty());

  const Ran bad = run_collctl(kCheck + history, "COLLCTL_FAULT=corrupt:rank=0");
  CHECK(bad.code == 7);
  all = trend();
  CHECK(all["code"] == 7);
  CHECK(all["hosts"][0]["state"] == "fails");
  REQUIRE_FALSE(all["findings"].empty());
  CHECK(all["findings"][0]["state"] == "new");
  CHECK(all["resume"].empty());

  CHECK(run_collctl(kCheck + history).code == 0);
  all = trend();
  CHECK(all["code"] == 0);
  CHECK(all["findings"][0]["state"] == "better");
  const std::string host = all["hosts"][0]["host"];
  CHECK(all["resume"] == json::array({host}));
  const Ran told = run_collctl("report --trend " + folder / "history" + " --host " + host);
  CHECK(told.code == 0);
  CHECK(has(told.out, format("scontrol update nodename={} state=resume\n", host)));
  CHECK(has(told.out, "3 checks, from "));
  const Ran newest = run_collctl("report --last 1 --trend " + folder / "history");
  CHECK(has(newest.out, "2 older files are not read (--last)"));
  CHECK_FALSE(has(newest.out, "state=resume"));
  // The trend is a report itself, and so is each check of the folder.
  shell("{} report --json --trend " + folder / "history" + " >" + folder / "trend.json");
  CHECK(run_collctl("report " + folder / "trend.json").code == 0);
  CHECK(shell("{} report " + folder / "history" + "/*.json").code == 7);
}

TEST_CASE("two checks at the same time are both in the history", "[cli]") {
  const TemporaryFolder folder;
  const std::string one = "{} check --only inventory --history " + folder / "h ";
  // Each makes the folder.
  const Ran both = shell(one + "& " + one + "& wait");
  INFO(both.err);
  const Ran trend = run_collctl("report --json --trend " + folder / "h");
  CHECK(trend.code == 0);
  CHECK(json::parse(trend.out)["runs"].size() == 2);
}

TEST_CASE("a history that cannot be written does not hide the verdict", "[cli]") {
  const TemporaryFolder folder;
  shell("touch " + folder / "file");
  const std::string nowhere = "--history " + folder / "file";
  const Ran good = run_collctl("check --only inventory " + nowhere);
  CHECK(good.code == 3);
  CHECK(has(good.out, "verdict: passed\n"));
  CHECK(has(good.err, folder / "file"));
  const Ran bad = run_collctl(kCheck + nowhere, "COLLCTL_FAULT=corrupt:rank=0");
  CHECK(bad.code == 7);
  CHECK(has(bad.err, folder / "file"));
}

TEST_CASE("lines about histories that mean nothing", "[cli]") {
  const TemporaryFolder folder;
  CHECK(has(run_collctl("check --history-keep 3").err, "expected both"));
  CHECK(has(run_collctl("report --host a x.json").err, "--host belongs to --trend"));
  CHECK(has(run_collctl("report --last 3 x.json").err, "--last belongs to --trend"));
  CHECK(has(run_collctl("report --trend --diff a b").err, "exclude each other"));
  CHECK(has(run_collctl("report --trend a b").err, "expected the DIR of check --history"));
  const Ran none = run_collctl("report --trend " + folder / "none");
  CHECK(none.code == 2);
  CHECK(has(none.err, folder / "none"));
  const Ran empty = run_collctl("report --trend " + folder.path());
  CHECK(empty.code == 8);
  CHECK(has(empty.out, "there is no check in " + folder.path()));
}

}  // namespace cli_history_tests
