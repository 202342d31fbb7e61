#include <set>

#include "base/format.h"
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
  CHECK(of("NVIDIA GB200", "gpu_copy") == 4370);
  CHECK(of("NVIDIA GB200", "to_gpu") == 48);
  CHECK(of("NVIDIA GB200", "from_gpu") == 48);
  CHECK(of("NVIDIA GB200", "peer_read") == 335);
  CHECK(of("NVIDIA B200", "peer_read") == 0);
  CHECK(of("NVIDIA H100 NVL", "to_gpu") == 52);
  CHECK(of("NVIDIA H100 NVL", "from_gpu") == 52);
  CHECK(of("NVIDIA H100 NVL", "peer_read") == 350);
  CHECK(of("NVIDIA H100 NVL", "gpu_copy") == 0);
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
  CHECK(wrong(one(R"("what": "port", "GBps": 20)")).find("Gbps") != std::string::npos);
  CHECK(wrong(one(R"("what": "port", "Gbps": 400, "GBps": 20)")).find("gpu") != std::string::npos);
  CHECK(wrong(one(R"("what": "to_gpu", "GTps": 16, "GBps": 20)")).find("GTps") !=
        std::string::npos);
  const auto bare = [](const std::string& more) {
    return R"({"schema": "collctl.floors/1", "floors": [{)" + more +
           R"(, "GBps": 20, "source": "s", "date": "d"}]})";
  };
  CHECK(wrong(bare(R"("what": "port", "Gbps": 400)")).empty());
  CHECK(wrong(bare(R"("what": "to_gpu")")).find("gpu") != std::string::npos);
  CHECK(wrong(bare(R"("what": "channel", "Gbps": 400)")).find("Gbps") != std::string::npos);
  CHECK(wrong(bare(R"("what": "to_gpu", "GTps": 16, "lanes": 99)")).find("lanes") !=
        std::string::npos);
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

TEST_CASE("a PCIe link, a port and a channel have floors by their rate") {
  const Floors floors = shipped();
  CHECK(find_link_floor(floors, "to_gpu", 16)->GBps == 21);
  CHECK(find_link_floor(floors, "from_gpu", 32)->GBps == 48);
  CHECK(find_link_floor(floors, "to_gpu", 2.5) == nullptr);
  CHECK(find_port_floor(floors, 400)->GBps == 45);
  CHECK(find_port_floor(floors, 800) == nullptr);
  CHECK(find_channel_floor(floors, 4800)->GBps == 27.7);
  CHECK(find_channel_floor(floors, 0) == nullptr);
  CHECK(find_floor(floors, "", "to_gpu") == nullptr);
}

TEST_CASE("a board without a floor is held against its link, and told") {
  const auto row = [](double GBps, int lanes) {
    NodeJob job = memory_job(GBps, "NVIDIA L40S");
    const size_t at = job.output.find(", \"wrong\"");
    job.output.insert(at, format(", \"pcie_GTps\": 16, \"pcie_lanes\": {}", lanes));
    return judge_job(job).findings.front();
  };
  CHECK(row(22, 16).status == FindingStatus::pass);
  CHECK(row(22, 16).expected == "21");
  const Finding slow = row(12, 16);
  CHECK(slow.status == FindingStatus::warn);
  CHECK(slow.code == ErrorCode{});
  CHECK(slow.message.find("to_gpu of GPU 0000:01:00.0 at 12 GB/s, a PCIe link of 16 GT/s x16 has "
                          "at least 21 (Azure NHC") != std::string::npos);
  CHECK(row(12, 8).status == FindingStatus::pass);
  CHECK(row(12, 8).expected == "10.5");
}

TEST_CASE("copies of a host are held against its memory channels, and told") {
  const auto row = [](double GBps, const std::string& more) {
    NodeJob job = memory_job(1, "x");
    const size_t at = job.output.find("{\"device\"");
    job.output =
        job.output.substr(0, at) + format(
                                       "{{\"device\": \"host\", \"what\": \"copy\", \"GBps\": {}, "
                                       "\"wrong\": false{}}}]}}",
                                       GBps, more);
    return judge_job(job).findings.front();
  };
  const std::string known = ", \"channels\": 8, \"MTps\": 3200";
  CHECK(row(150, known).status == FindingStatus::pass);
  const Finding slow = row(100, known);
  CHECK(slow.status == FindingStatus::warn);
  CHECK(slow.expected == "142.4");
  CHECK(slow.message.find("copy at 100 GB/s, 8 memory channels at 3200 MT/s has") !=
        std::string::npos);
  CHECK(row(1, "").status == FindingStatus::pass);  // nothing is known
  CHECK(row(1, ", \"channels\": 8, \"MTps\": 1234").status == FindingStatus::pass);
  CHECK(row(1, known + ", \"busy\": \"others took 4 cores\"").status == FindingStatus::pass);
}

TEST_CASE("a port is held against its rate by its best path, and told") {
  RailsReport report;
  for (int host = 0; host < 2; ++host)
    report.hosts.push_back(
        {.host = {HostId{host}, host == 0 ? "a" : "b"},
         .nics = {{.name = "mlx5_0:1", .link = "InfiniBand", .rdma = true, .rate_Gbps = 400},
                  {.name = "mlx5_1:1",
                   .link = "InfiniBand",
                   .rdma = true,
                   .rate_Gbps = host == 0 ? 200.0 : 100.0}}});
  const auto cell = [](double GBps) {
    RailResult result;
    result.end = RailEnd::ok;
    result.GBps = GBps;
    return result;
  };
  // From a to b, then back; a NIC's paths to one that is slower say nothing of it.
  report.pairs.push_back({.from = 0, .to = 1, .cells = {cell(30), cell(12), cell(23), cell(12)}});
  report.pairs.push_back({.from = 1, .to = 0, .cells = {cell(46), cell(24), cell(8), cell(9)}});
  const auto found = port_findings(report, shipped());
  REQUIRE(found.size() == 4);
  CHECK(found[0].measured == "46");
  CHECK(found[0].status == FindingStatus::pass);
  CHECK(found[1].measured == "24");
  CHECK(found[1].status == FindingStatus::pass);
  CHECK(found[3].at.device == "mlx5_1:1");
  CHECK(found[3].measured == "12");
  report.pairs[1].cells[0].GBps = 40;
  const auto slow = port_findings(report, shipped());
  CHECK(slow[0].status == FindingStatus::warn);
  CHECK(slow[0].code == ErrorCode{});
  CHECK(
      slow[0].message.find("a mlx5_0:1: 40 GB/s on its best path, a port of 400 Gb/s has at least "
                           "45 GB/s (Azure NHC") == 0);
  report.hosts[0].busy = "others took 4 cores";
  CHECK(port_findings(report, shipped()).size() == 2);
  report.hosts[1].nics[0].link = "RoCE";
  CHECK(port_findings(report, shipped()).size() == 1);
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
