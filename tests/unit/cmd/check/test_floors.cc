#include <set>

#include "cmd/check/check.h"
#include "cmd/check/floors.h"
#include "cmd/check/node.h"
#include "cmd/judge/json.h"
#include "tests/catch.h"

namespace check_floors_tests {
using namespace collctl;
using namespace collctl::cmd;

Floors shipped() {
  return *parse_floors("floors.json", kShippedFloors);
}

TEST_CASE("every floor that collctl has says where it comes from and since when") {
  std::set<std::string> boards;
  for (const Floor& floor : shipped()) {
    INFO(floor.gpu << " " << floor.what);
    CHECK(floor.GBps > 0);
    CHECK(floor.source.size() > 10);
    CHECK(floor.date.size() == 7);
    boards.insert(floor.gpu);
  }
  CHECK(boards.size() >= 10);
}

TEST_CASE("a board has the floors of its whole name") {
  const Floors floors = shipped();
  const auto of = [&](const char* board, const char* what, int gpus = 0) {
    const Floor* floor = find_floor(floors, board, what, gpus);
    return floor == nullptr ? 0 : floor->GBps;
  };
  CHECK(of("NVIDIA H100 80GB HBM3", "to_gpu") == 48);
  CHECK(of("NVIDIA A100-SXM4-80GB", "gpu_copy") == 1160);
  CHECK(of("NVIDIA A100-SXM4-40GB", "gpu_copy") == 886);
  CHECK(of("NVIDIA A100-SXM4-40GB", "allreduce", 8) == 185);
  // Boards that are called alike and are others.
  CHECK(of("NVIDIA H200", "allreduce", 8) == 440);
  CHECK(of("NVIDIA H200 NVL", "allreduce", 8) == 0);
  CHECK(of("NVIDIA B200", "allreduce", 8) == 440);
  CHECK(of("NVIDIA GB200", "gpu_copy") == 0);
  CHECK(of("NVIDIA GeForce RTX 4090", "gpu_copy") == 574);
  CHECK(of("NVIDIA GeForce RTX 4090 Laptop GPU", "gpu_copy") == 0);
  CHECK(of("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpu_copy") == 0);
  CHECK(of("NVIDIA H200", "allreduce", 4) == 0);
  CHECK(is_known(floors, "NVIDIA L40S"));
  CHECK_FALSE(is_known(floors, "NVIDIA L40"));
  CHECK_FALSE(is_known(floors, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"));
}

TEST_CASE("a user's floors come before those that collctl has") {
  auto mine = parse_floors("mine.json", R"({"schema": "collctl.floors/1", "floors": [
    {"gpu": "H200", "what": "to_gpu", "GBps": 20, "source": "our slots", "date": "2026-11"}]})");
  REQUIRE(mine.ok());
  const Floors ours = shipped();
  mine->insert(mine->end(), ours.begin(), ours.end());
  CHECK(find_floor(*mine, "NVIDIA H200", "to_gpu")->GBps == 20);
  CHECK(find_floor(*mine, "NVIDIA H200", "from_gpu")->GBps == 48);
  // However much of the board's name ours have.
  mine->insert(mine->begin(), {.gpu = "A100-SXM4*", .what = "gpu_copy", .GBps = 900});
  CHECK(find_floor(*mine, "NVIDIA A100-SXM4-80GB", "gpu_copy")->GBps == 900);
}

TEST_CASE("a file of floors that is wrong says where") {
  const auto wrong = [](const std::string& json) {
    const auto read = parse_floors("mine.json", json);
    return read.ok() ? "" : read.error().chain();
  };
  const auto one = [](const std::string& more) {
    return R"({"schema": "collctl.floors/1", "floors": [{"gpu": "H200", )" + more +
           R"(, "source": "s", "date": "d"}]})";
  };
  CHECK(wrong(one(R"("what": "to_gpu", "GBps": 20)")).empty());
  CHECK(wrong("[").starts_with("mine.json: "));
  CHECK(wrong(R"({"schema": "collctl.floors/2", "floors": []})").find("collctl.floors/1") !=
        std::string::npos);
  CHECK(wrong(one(R"("what": "speed", "GBps": 20)")).find("allreduce") != std::string::npos);
  CHECK(wrong(one(R"("what": "to_gpu", "GBps": 0)")).find("GBps") != std::string::npos);
  CHECK(wrong(one(R"("what": "to_gpu", "GBps": 1e9)")).find("GBps") != std::string::npos);
  CHECK(wrong(one(R"("what": "to_gpu", "gpus": 8, "GBps": 20)")).find("gpus") != std::string::npos);
  CHECK(wrong(one(R"("what": "allreduce", "GBps": 20)")).find("gpus") != std::string::npos);
}

NodeJob memory_job(double to_gpu, const std::string& model) {
  NodeJob job;
  job.host = base::saved_host("n1");
  job.kind = NodeJobKind::memory;
  job.name = "memory-test";
  static const Floors floors = shipped();
  job.floors = &floors;
  job.output = R"({"schema": "collctl.memory-test/1", "version": "0.1.0", "date":
      "2026-11-30T00:00:00+00:00", "command": "collctl memory-test", "host": "n1", "rows": [
      {"device": "0000:01:00.0", "model": ")" +
               model + R"(", "what": "to device", "GBps": )" + std::to_string(to_gpu) +
               R"(, "wrong": false}]})";
  return job;
}

TEST_CASE("a board below its floor is named with figure and source") {
  const NodeResult slow = judge_job(memory_job(24, "NVIDIA H200"));
  const Finding& found = slow.findings.front();
  CHECK(found.status == FindingStatus::fail);
  CHECK(found.reason == kBelowFloor);
  CHECK(found.at.device == "0000:01:00.0");
  CHECK(found.expected == "48");
  CHECK(found.message.find("NVIDIA H200) at 24 GB/s, at least 48 GB/s (Azure NHC") !=
        std::string::npos);
  CHECK(judge_job(memory_job(55, "NVIDIA H200")).findings.front().status == FindingStatus::pass);
  // Nothing is asked of a board that nobody has told us about, and that is said.
  const NodeResult unknown = judge_job(memory_job(3, "NVIDIA T4"));
  CHECK(unknown.findings.front().status == FindingStatus::pass);
  CHECK(unknown.findings.front().basis == "no floor is known of NVIDIA T4");
}

TEST_CASE("what the site expects goes before the floor of a board") {
  NodeJob job = memory_job(24, "NVIDIA H200");
  job.expect = *parse_expect("site.expect", "to_gpu=20");
  CHECK(judge_job(job).findings.front().status == FindingStatus::pass);
  job.expect = *parse_expect("site.expect", "to_gpu=30");
  const NodeResult result = judge_job(job);
  CHECK(result.findings.front().basis == "site.expect:1");
  CHECK(result.findings.front().status == FindingStatus::fail);
}

}  // namespace check_floors_tests
