// --expect: what every host must have, whatever the others have.
#include "tests/unit/cmd/doctor/doctor_hosts.h"

namespace doctor_expect_tests {

using namespace doctor_tests;

namespace {

std::string mistake(const std::string& text) {
  const auto read = parse_expect("e", text);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == ErrorCode::usage);
  return read.error().message;
}

HostFacts gpu_host() {
  HostFacts facts = facts_of(1);
  facts.nvidia = {"550.54.15", std::vector<std::string>(8, "NVIDIA H100 80GB HBM3"), 8};
  for (int i = 0; i < 2; ++i) {
    facts.rdma.push_back({format("mlx5_{}", i), 1, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"});
    facts.rdma_devices.emplace_back().firmware = "28.39.1002";
  }
  return facts;
}

std::vector<Finding> judged(const HostFacts& facts, const std::string& text) {
  auto read = parse_expect("e", text);
  REQUIRE(read.ok());
  std::vector<Finding> findings;
  add_expectations({HostId{1}, "n1"}, facts, *read, findings);
  return findings;
}

bool met(const HostFacts& facts, const std::string& text) {
  for (const Finding& finding : judged(facts, text))
    if (finding.status != FindingStatus::pass) return false;
  return true;
}

}  // namespace

TEST_CASE("a host that has what is expected passes", "[doctor]") {
  CHECK(met(gpu_host(),
            "gpus=8 rdma=2 driver=550.* firmware=28.39.1002  # the vendor's\n"
            "speed=400 cpus=4 memory=16G"));
  CHECK(met(gpu_host(), "memory=17G"));  // firmware keeps a part
  CHECK_FALSE(met(gpu_host(), "memory=18G"));
}

TEST_CASE("what is missing fails, though all hosts lack it", "[doctor]") {
  for (const char* text : {"gpus=7", "rdma=3", "driver=550.54.1", "driver=560.*",
                           "firmware=28.38.*", "mtu=9000 mtu=4000", "speed=401", "cpus=5"})
    CHECK_FALSE(met(gpu_host(), text));
  const auto findings = judged(facts_of(1), "gpus=8 driver=* firmware=28.*");
  REQUIRE(findings.size() == 3);
  CHECK(findings[2].name == "expect gpus");
  CHECK(findings[2].status == FindingStatus::fail);
  CHECK(findings[2].message == "gpus 0, 8 is expected (e:1)");
  CHECK(findings[0].message == "driver none, * is expected (e:1)");
  CHECK(findings[1].message == "firmware none, 28.* is expected (e:1)");
  // Through the doctor: equal hosts that all lack it.
  const auto expect = parse_expect("e", "gpus=8");
  REQUIRE(expect.ok());
  CHECK(diagnose_hosts(healthy(3)).verdict().ok());
  CHECK(diagnose_hosts(healthy(3), *expect).verdict().exit_code() == 1);
}

TEST_CASE("floors are no matter of facts: they hold where GPUs of their model are", "[doctor]") {
  const auto read = parse_expect("e", "copy=20 to_gpu=10\n[H100]\nto_gpu=45 gpus=8\n");
  REQUIRE(read.ok());
  CHECK(expects(*read, ExpectKind::floor));
  CHECK(expects(*read, ExpectKind::fact));
  std::vector<Finding> findings;
  add_expectations({HostId{1}, "n1"}, gpu_host(), *read, findings);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].name == "expect gpus");
  const auto of_h100 = floors_of(*read, {"NVIDIA H100 80GB HBM3"});
  REQUIRE(of_h100.size() == 2);
  CHECK(of_h100.at("copy")->value == "20");
  CHECK(of_h100.at("to_gpu")->value == "45");
  CHECK(floors_of(*read, {}).at("to_gpu")->value == "10");
  CHECK_FALSE(expects(*parse_expect("e", "copy=20"), ExpectKind::fact));
  CHECK(mistake("copy=fast").find("GB/s") != std::string::npos);
}

TEST_CASE("one of several devices that differs fails", "[doctor]") {
  HostFacts facts = gpu_host();
  facts.rdma[1].rate = "200 Gb/sec (4X HDR)";
  const auto findings = judged(facts, "speed=400");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].message == "speed 200, 400, at least 400 each is expected (e:1)");
}

TEST_CASE("what is said of a model holds for hosts with such a GPU, before what is said of all",
          "[doctor]") {
  const std::string text = "cpus=2\n[H100]\ncpus=64 gpus=8\n[B200]\ngpus=4\n";
  CHECK_FALSE(met(gpu_host(), text));  // 4 cores
  CHECK(met(facts_of(1), text));
  HostFacts large = gpu_host();
  large.cores = 64;
  CHECK(met(large, text));
}

TEST_CASE("a port that is not active anywhere is missing", "[doctor]") {
  Survey survey = healthy(2);
  for (SurveyedHost& host : survey.hosts) {
    host.facts->rdma = {{"mlx5_0", 1, "DOWN", "40 Gb/sec", "InfiniBand"}};
    host.facts->locked_memory = {base::kUnlimited, base::kUnlimited};
  }
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(diagnosis.verdict().exit_code() == 1);
  size_t found = 0;
  for (const Finding& check : diagnosis.checks)
    if (check.name == "rdma" && check.status == FindingStatus::fail) {
      ++found;
      CHECK(check.message == "there is 1 RDMA port, and none is active");
    }
  CHECK(found == 2);
}

TEST_CASE("a mistake in what is expected is told with its line and column", "[doctor]") {
  CHECK(mistake("") == "e: expects nothing");
  CHECK(mistake("gpus=8\n  gpu=8") == "e:2:3: expected KEY=VALUE, not 'gpu=8'");
  CHECK(mistake("gpus") == "e:1:1: expected KEY=VALUE, not 'gpus'");
  CHECK(mistake("cpus=4 gpus=many") == "e:1:8: gpus= expects a number, not 'many'");
  CHECK(mistake("gpus=-1") == "e:1:1: gpus= expects a number, not '-1'");
  CHECK(mistake("memory=x") == "e:1:1: memory= expects a size (512G), not 'x'");
  CHECK(mistake("driver=5*0") == "e:1:1: driver= expects a version, not '5*0'");
  CHECK(mistake("driver=") == "e:1:1: driver= expects a version, not ''");
  CHECK(mistake("[H100\ngpus=8") == "e:1:1: expected [MODEL], a part of a GPU's name");
  std::string many;
  for (size_t i = 0; i <= kMostExpected; ++i) many += "gpus=8\n";
  CHECK(mistake(many).find("more than 1000") != std::string::npos);
}

}  // namespace doctor_expect_tests
