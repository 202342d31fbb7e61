// The burn-in of several hosts, judged together.
#include "cmd/check/burn.h"

#include "cmd/check/check.h"
#include "cmd/check/node.h"
#include "tests/catch.h"

namespace check_burn_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

Host node(int number) {
  return {HostId{number}, "n" + std::to_string(number)};
}

BurntDevice gpu(int host, double TFLOPs = 600, std::vector<uint64_t> bands = {1, 2}) {
  BurntDevice burnt{node(host), {.device = "0000:4b:00.0", .model = "H200", .gpu = true}};
  burnt.device.rounds = 20;
  burnt.device.memory_bytes = uint64_t(100) << 30;
  burnt.device.memory_passes = 20;
  burnt.device.works = {
      {.what = "bf16", .TFLOPs = TFLOPs, .products = 1000, .bands = std::move(bands)}};
  burnt.device.samples = {{.at_s = 0, .power_W = 600, .clock_MHz = 1900, .temperature_C = 60},
                          {.at_s = 1, .power_W = 700, .clock_MHz = 1800, .temperature_C = 70}};
  return burnt;
}

std::vector<Finding> no_passes(const std::vector<BurntDevice>& all) {
  auto list = judge_burnt(all, 0.7).findings;
  std::erase_if(list, [](const Finding& f) { return f.status == FindingStatus::pass; });
  return list;
}

}  // namespace

TEST_CASE("burn: GPUs alike and right pass, with their figures", "[check]") {
  const std::vector<BurntDevice> all = {gpu(1), gpu(2, 580), gpu(3)};
  CHECK(no_passes(all).empty());
  CHECK(judge_burnt(all, 0.7).culprits.empty());
  for (const Finding& finding : judge_burnt(all, 0.7).findings)
    if (finding.name == "burn/heat")
      CHECK(finding.basis == "up to 70 C, 650 W on average, 1800 MHz at least");
}

TEST_CASE("burn: a wrong bit is a culprit at once", "[check]") {
  std::vector<BurntDevice> all = {gpu(1), gpu(2)};
  all[1].device.wrong = {{"bf16", "earlier rounds", 3, "row 5, column 9", 0x100, 0x120, 1}};
  const BurnFindings judged = judge_burnt(all, 0.7);
  REQUIRE(judged.culprits.size() == 1);
  CHECK(judged.culprits[0].name == "n2 0000:4b:00.0");
  CHECK(judged.culprits[0].kind == SubjectKind::gpu);
  const auto bad = no_passes(all);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].code == ErrorCode::bad_data);
  CHECK(bad[0].message ==
        "n2: GPU 0000:4b:00.0: wrong data: bf16 in round 3, row 5, column 9: 0x120, not 0x100 "
        "(bit 5; 1 word in all, beside earlier rounds)");
  CHECK_FALSE(bad[0].remedy.empty());
}

TEST_CASE("burn: the odd of three is named, of two nobody and both are told", "[check]") {
  const BurnFindings three = judge_burnt(std::vector{gpu(1), gpu(2, 600, {1, 9}), gpu(3)}, 0.7);
  REQUIRE(three.culprits.size() == 1);
  CHECK(three.culprits[0].host == node(2));
  const std::vector<BurntDevice> two = {gpu(1), gpu(2, 600, {1, 9})};
  CHECK(judge_burnt(two, 0.7).culprits.empty());
  const auto unsure = no_passes(two);
  REQUIRE(unsure.size() == 1);
  CHECK(unsure[0].code == ErrorCode::bad_data);
  CHECK(unsure[0].at.kind == SubjectKind::job);
  CHECK(unsure[0].message.find("n1: GPU 0000:4b:00.0, n2: GPU 0000:4b:00.0") != std::string::npos);
}

TEST_CASE("burn: the word that differs is told, of which GPU it is and on which another",
          "[check]") {
  const std::vector<BurntDevice> three = {gpu(1), gpu(2, 600, {1, 9}), gpu(3)};
  auto differences = differences_of(three);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].device == 1);
  CHECK(differences[0].other == 0);
  CHECK(differences[0].what == "bf16");
  const auto said = [&](const std::vector<BurntDevice>& all) {
    for (const Finding& finding : judge_burnt(all, 0.7, differences).findings)
      if (finding.status == FindingStatus::fail) return finding.message;
    return std::string();
  };
  CHECK(said(three).ends_with("from part 2 of 2 on; computed again they are alike"));
  differences[0].first = {"row 5, column 9", 0x120, 0x100};
  CHECK(said(three) ==
        "n2: GPU 0000:4b:00.0: wrong data: its product in bf16 is not that of 2 of 3 alike, from "
        "part 2 of 2 on; computed again, row 5, column 9 is 0x120 on n2: GPU 0000:4b:00.0 and "
        "0x100 on n1: GPU 0000:4b:00.0 (bit 5)");
  differences[0].why = "n2: rank 0 was lost";
  CHECK(said(three).ends_with("the word that differs was not found: n2: rank 0 was lost"));
  // Nobody knows which of two is right, and both are told.
  const std::vector<BurntDevice> two = {gpu(1), gpu(2, 600, {1, 9})};
  differences = differences_of(two);
  REQUIRE(differences.size() == 1);
  differences[0].first = {"row 5, column 9", 0x120, 0x100};
  CHECK(said(two).find("n1: GPU 0000:4b:00.0, n2: GPU 0000:4b:00.0; computed again, row 5, column "
                       "9 is 0x120 on n2") != std::string::npos);
  // One that is unlike itself in an earlier run, beside one that is as that was.
  std::vector<BurntDevice> runs = {gpu(1), gpu(2)};
  BurnReport report{.host = "n2", .seconds = 10, .devices = {gpu(2, 600, {1, 9}).device}};
  add_burnt(runs, node(2), report, 100);
  differences = differences_of(runs);
  REQUIRE(differences.size() == 1);
  CHECK(differences[0].device == 1);
  CHECK(differences[0].other == 0);
  differences[0].first = {"row 5, column 9", 0x120, 0x100};
  CHECK(
      said(runs).find("an earlier run, part 2 of 2 of its first product; computed again, row 5") !=
      std::string::npos);
  // Bounded; cores have no such product.
  std::vector<BurntDevice> many;
  for (int host = 0; host < 20; ++host)
    many.push_back(gpu(host, 600, {1, uint64_t(host < 12 ? 0 : host)}));
  CHECK(differences_of(many).size() == kMostDifferences);
  for (BurntDevice& one : many) one.device.gpu = false;
  CHECK(differences_of(many).empty());
  CHECK(differences_of(std::vector{gpu(1), gpu(2)}).empty());
}

TEST_CASE("burn: heat that slows a GPU down fails, its power cap does not", "[check]") {
  std::vector<BurntDevice> all = {gpu(1)};
  all[0].device.samples[1].throttled = 0x4;
  CHECK(no_passes(all).empty());
  all[0].device.samples[1].throttled = 0x44;
  const auto hot = no_passes(all);
  REQUIRE(hot.size() == 1);
  CHECK(hot[0].code == ErrorCode::failed);
  CHECK(hot[0].message.find("70 C") != std::string::npos);
  CHECK(hot[0].message.find("heat (hardware)") != std::string::npos);
  CHECK(judge_burnt(all, 0.7).culprits.size() == 1);
  all[0].device.samples[1].throttled = 0x80;
  CHECK(no_passes(all).at(0).message.find("power brake") != std::string::npos);
}

TEST_CASE("burn: errors that were counted are judged as counters, and drawn", "[check]") {
  std::vector<BurntDevice> all = {gpu(1), gpu(2)};
  all[0].device.samples[0].throttled = 0x4;
  all[0].device.events = {{0.5, "pcie_replays", 3}, {1, "pcie_replays", 1}};
  const auto told = no_passes(all);
  REQUIRE(told.size() == 1);
  CHECK(told[0].name == "burn/pcie_replays");
  CHECK(told[0].status == FindingStatus::warn);
  CHECK(told[0].measured == "4");
  CHECK(judge_burnt(all, 0.7).culprits.empty());
  all[0].device.events.push_back({1, "nvlink_crc_data 3", 20});
  all[0].device.events.push_back({1, "nvlink_crc_data 14", 5});
  const auto links = no_passes(all);
  REQUIRE(links.size() == 2);
  CHECK(links[0].measured == "25");  // of all links of a GPU
  all[0].device.events.resize(2);
  all[1].device.events = {{0.5, "ecc_uncorrected", 1}, {0.6, "aer_fatal TLP", 1}};
  const BurnFindings judged = judge_burnt(all, 0.7);
  REQUIRE(judged.culprits.size() == 1);
  CHECK(judged.culprits[0].kind == SubjectKind::gpu);
  CHECK(judged.culprits[0].host == node(2));
  CHECK(no_passes(all).size() == 3);
  const std::string svg = burn_svg(all);
  CHECK(svg.find("ecc_uncorrected: 1 more at 0.5 s") != std::string::npos);
  CHECK(svg.find("throttled: power cap") != std::string::npos);
  CHECK(svg.find("slowed down, and errors") != std::string::npos);
  CHECK(burn_svg({gpu(1)}).find("slowed down") == std::string::npos);
  // Stretches keep the times of theirs.
  std::vector<BurntDevice> joined;
  add_burnt(joined, node(1), {.host = "n1", .seconds = 10, .devices = {all[0].device}}, 0);
  add_burnt(joined, node(1), {.host = "n1", .seconds = 10, .devices = {all[0].device}}, 100);
  REQUIRE(joined[0].device.events.size() == 4);
  CHECK(joined[0].device.events[2].at_s == 100.5);
}

TEST_CASE("burn: cores that GPUs need are told, and nothing is missing", "[check]") {
  BurntDevice host{node(1), {.device = kBurnHost, .model = ""}};
  host.device.why_not = "its GPUs need all of its cores";
  const auto told = no_passes({gpu(1), host});
  REQUIRE(told.size() == 1);
  CHECK(told[0].status == FindingStatus::warn);
  CHECK(told[0].message == "n1: not burnt beside the GPUs: its GPUs need all of its cores");
}

TEST_CASE("burn: a GPU much slower than its equals fails, where there are three", "[check]") {
  const auto slow = no_passes({gpu(1), gpu(2, 300), gpu(3)});
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].name == "burn/bf16 speed");
  CHECK(slow[0].at.host == node(2));
  CHECK(no_passes({gpu(1), gpu(2, 300)}).empty());
  auto other = gpu(3, 300);
  other.device.model = "L40S";
  CHECK(no_passes({gpu(1), gpu(2), other}).empty());
}

TEST_CASE("burn: what was not burnt is not tested, what stopped failed", "[check]") {
  std::vector<BurntDevice> all = {gpu(1), gpu(2), gpu(3)};
  all[0].device.why_not = "no kernels";
  all[0].device.works.clear();
  all[1].device.why_not = "GPU 0 does not go on";
  all[1].device.code = ErrorCode::deadline;
  all[2].device.memory_bytes = 0;
  const auto left = no_passes(all);
  REQUIRE(left.size() == 3);
  CHECK(left[0].status == FindingStatus::not_tested);
  CHECK(left[0].code == ErrorCode::incomplete);
  CHECK(left[1].code == ErrorCode::deadline);
  CHECK(left[2].status == FindingStatus::not_tested);
  const BurnFindings judged = judge_burnt(all, 0.7);
  REQUIRE(judged.culprits.size() == 1);
  CHECK(judged.culprits[0].host == node(2));
}

TEST_CASE("burn: stretches of a device are one, and must have the same bits", "[check]") {
  std::vector<BurntDevice> all;
  BurnReport report{.host = "n1", .seconds = 10, .devices = {gpu(1).device}};
  add_burnt(all, node(1), report, 0);
  add_burnt(all, node(2), report, 0);
  add_burnt(all, node(1), report, 100);
  REQUIRE(all.size() == 2);
  CHECK(all[0].device.rounds == 40);
  CHECK(all[0].device.works[0].products == 2000);
  CHECK(all[0].device.works[0].TFLOPs == 600);
  REQUIRE(all[0].device.samples.size() == 4);
  CHECK(all[0].device.samples[2].at_s == 100);
  CHECK(no_passes(all).empty());
  report.devices[0].works[0].bands = {1, 3};
  report.devices[0].wrong = {{"fp8", "earlier rounds", 3, "row 1, column 1", 1, 3, 1}};
  add_burnt(all, node(1), report, 200);
  const auto bad = no_passes(all);
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].message.find("fp8 in round 43") != std::string::npos);
  CHECK(bad[1].message.find("bf16 is not what it was in an earlier run") != std::string::npos);
}

TEST_CASE("burn: the report keeps curves short, and draws them", "[check]") {
  CheckReport report;
  report.hosts = {node(1)};
  for (int i = 0; i < 3000; ++i) {
    auto burnt = gpu(i);
    burnt.device.samples.resize(200, {.at_s = 100, .power_W = 650});
    report.burnt.push_back(std::move(burnt));
  }
  BurntDevice core{node(1), {.device = "core 1", .model = "x"}};
  core.device.works = {{.what = "core"}};
  report.burnt.push_back(core);
  report.burnt = kept_burnt(std::move(report.burnt));
  REQUIRE(report.burnt.size() == 3000);
  CHECK(report.burnt[0].device.samples.size() <= 8);
  CHECK(report.burnt[0].device.works[0].bands.empty());
  const std::string svg = burn_svg(report.burnt);
  CHECK(svg.find("24 of 3000 devices") != std::string::npos);
  CHECK(svg.find("power, W") != std::string::npos);
  CHECK(burn_svg({core}).empty());
  report.burnt.resize(2);
  const Verdict verdict(report.findings, std::nullopt);
  const std::string json = check_json(report, verdict);
  const auto judged = read_judgement(json);
  REQUIRE(judged);
  const auto back = read_check(*judged);
  REQUIRE(back);
  REQUIRE(back->burnt.size() == 2);
  CHECK(back->burnt[1].device.samples.size() == report.burnt[1].device.samples.size());
  CHECK(back->burnt[1].host.name == "n1");
}

TEST_CASE("burn: what it is likely to take is what was asked for, and more", "[check]") {
  for (const Suite& suite : suites()) {
    const double none = suite.cost_s(4, {});
    const double asked = suite.cost_s(4, {.burn_s = 360});
    CHECK(asked - none == (suite.run == check_burn ? 360 : 0));
  }
  CHECK(burn_turns(1) == 1);
  CHECK(burn_turns(256) == 1);
  CHECK(burn_turns(257) == 2);
}

}  // namespace check_burn_tests
