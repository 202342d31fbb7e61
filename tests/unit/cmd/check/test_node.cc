// A run's findings about its one host, from the reports that such runs have written.
#include <tuple>

#include "base/format.h"
#include "cmd/check/node.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/report/report.h"
#include "tests/catch.h"

namespace check_node_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

NodeJob ended(NodeJobKind kind, const std::string& name, std::string output, int exit_code = 0) {
  NodeJob job;
  job.host = {HostId{0}, "n1"};
  job.kind = kind;
  job.name = name;
  job.output = std::move(output);
  job.exit_code = exit_code;
  job.begun = job.over = true;
  return job;
}

NodeJob memory(const std::string& expected, double to_gpu = 50) {
  const MemoryReport report{.host = "n1",
                            .rows = {{.device = "host", .what = "copy", .GBps = 20, .wrong = false},
                                     {"0000:4b:00.0", "NVIDIA H100", "copy", 2600, false},
                                     {"0000:4b:00.0", "NVIDIA H100", "to device", to_gpu, false},
                                     {"0000:4c:00.0", "NVIDIA H100", "to device", 52, false}}};
  NodeJob job = ended(NodeJobKind::memory, "memory-test", memory_json(report));
  if (!expected.empty()) job.expect = *parse_expect("site", expected);
  return job;
}

std::vector<Finding> no_passes(const NodeJob& job) {
  std::vector<Finding> list = judge_job(job).findings;
  std::erase_if(list, [](const Finding& f) { return f.status == FindingStatus::pass; });
  return list;
}

}  // namespace

TEST_CASE("copies: the slowest of several devices is held against the other hosts", "[check]") {
  const NodeResult result = judge_job(memory(""));
  CHECK(no_passes(memory("")).empty());
  CHECK(result.speeds.at("memory").GBps == 20);
  CHECK(result.speeds.at("memory").device.empty());
  CHECK(result.speeds.at("to device").GBps == 50);
  CHECK(result.speeds.at("to device").device == "0000:4b:00.0");
}

TEST_CASE("copies below the floor of their model fail, of the device that it is", "[check]") {
  CHECK(no_passes(memory("copy=20 gpu_copy=2600 to_gpu=50")).empty());
  CHECK(no_passes(memory("copy=10\n[A100]\nto_gpu=90")).empty());
  const auto slow = no_passes(memory("copy=10\n[H100]\nto_gpu=51"));
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].status == FindingStatus::fail);
  CHECK(slow[0].code == ErrorCode::failed);
  CHECK(slow[0].reason == kBelowFloor);
  CHECK(slow[0].at.kind == SubjectKind::gpu);
  CHECK(slow[0].at.device == "0000:4b:00.0");
  CHECK(slow[0].message ==
        "n1: to_gpu of GPU 0000:4b:00.0 at 50 GB/s, at least 51 is expected (site:3)");
  CHECK(no_passes(memory("copy=21"))[0].at.kind == SubjectKind::host);
}

TEST_CASE("a GPU's link that is slower under load than card and slot can be fails", "[check]") {
  const auto judged = [](double GTps, int lanes, double GBps, double GTps_most = 32,
                         const char* what = "from device") {
    MemoryReport report{.host = "n1", .rows = {{.device = "0000:4b:00.0", .what = what}}};
    MemoryRow& row = report.rows[0];
    row.GBps = GBps;
    row.pcie_GTps = GTps;
    row.pcie_lanes = lanes;
    row.pcie_GTps_most = GTps_most;
    row.pcie_lanes_most = GTps_most > 0 ? 16 : 0;
    return no_passes(ended(NodeJobKind::memory, "memory-test", memory_json(report)));
  };
  CHECK(judged(32, 16, 50).empty());
  for (const auto& [GTps, lanes, text] :
       {std::tuple(16., 16, "16 GT/s x16"), {32., 8, "32 GT/s x8"}, {5., 16, "5 GT/s x16"}}) {
    const auto slow = judged(GTps, lanes, 7);
    REQUIRE(slow.size() == 1);
    CHECK(slow[0].name == "node/pcie");
    CHECK(slow[0].status == FindingStatus::fail);
    CHECK(slow[0].at.kind == SubjectKind::gpu);
    CHECK(slow[0].at.device == "0000:4b:00.0");
    CHECK(slow[0].measured == text);
    CHECK(slow[0].expected == "32 GT/s x16");
    CHECK_FALSE(slow[0].remedy.empty());
  }
  CHECK(judged(2.5, 16, 50).empty());    // it rests again, or C2C was faster
  CHECK(judged(16, 16, 20, 0).empty());  // a virtual machine
  CHECK(judged(16, 16, 20, 32, "copy").empty());
  // Ten bits a byte.
  CHECK(judged(5, 16, 7.9).size() == 1);
  CHECK(judged(5, 16, 8.1).empty());
}

TEST_CASE("a floor that nothing could be held against is not tested", "[check]") {
  const auto left = no_passes(memory("from_gpu=10"));
  REQUIRE(left.size() == 1);
  CHECK(left[0].status == FindingStatus::not_tested);
  CHECK(left[0].code == ErrorCode::incomplete);
  NodeJob again = memory("to_gpu=51");
  again.not_again = "it was lost";
  const auto unsure = no_passes(again);
  REQUIRE(unsure.size() == 1);
  CHECK(unsure[0].status == FindingStatus::not_tested);
  CHECK(unsure[0].message.find("it was lost") != std::string::npos);
}

TEST_CASE("copied bytes that differ are wrong data, whatever the speed", "[check]") {
  const MemoryReport report{.host = "n1",
                            .rows = {{.device = "host", .what = "copy", .GBps = 1, .wrong = true}}};
  NodeJob job = ended(NodeJobKind::memory, "memory-test", memory_json(report));
  job.expect = *parse_expect("site", "copy=20");
  const auto bad = no_passes(job);
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].code == ErrorCode::bad_data);
}

TEST_CASE("figures that others' work spoilt say so, and still count as good", "[check]") {
  const auto reason_of = [](const NodeResult& result, const std::string& name) {
    for (const Finding& finding : result.findings)
      if (finding.name == name) return finding.reason;
    return std::string("not there");
  };
  MemoryReport report{.host = "n1",
                      .rows = {{.device = "host", .what = "copy", .GBps = 20, .busy = "others"}}};
  const auto copies = [&] {
    return judge_job(ended(NodeJobKind::memory, "memory-test", memory_json(report)));
  };
  CHECK(reason_of(copies(), "node/memory") == kBusyHost);
  CHECK(copies().busy == "others");
  report.rows[0].busy.clear();
  CHECK(reason_of(copies(), "node/memory").empty());
  CHECK(copies().busy.empty());
  BenchReport bench;
  bench.header.emplace();
  bench.header->ranks = 2;
  bench.closing.emplace();
  const auto collective = [&](bool own_limit) {
    bench.closing->busy = {{{HostId{0}, "n1"}, "others", own_limit}};
    return judge_job(
        ended(NodeJobKind::collective, "allreduce", bench_json(bench, Verdict({}, {}))));
  };
  CHECK(reason_of(collective(false), "node/allreduce") == kBusyHost);
  CHECK(reason_of(collective(true), "node/allreduce").empty());
}

TEST_CASE("what a busy host misses is not tested, unless it is below a fifth", "[check]") {
  const auto floor = [](double GBps) {
    const MemoryReport report{
        .host = "n1", .rows = {{.device = "host", .what = "copy", .GBps = GBps, .busy = "others"}}};
    NodeJob job = ended(NodeJobKind::memory, "memory-test", memory_json(report));
    job.expect = *parse_expect("site", "copy=20");
    return no_passes(job);
  };
  // A program on the GPU excuses that GPU as others' work does a host.
  const auto gpu = [](const std::string& busy) {
    MemoryReport report{.host = "n1", .rows = {{.device = "0000:4b:00.0", .what = "copy"}}};
    report.rows[0].model = "NVIDIA H200";
    report.rows[0].GBps = 15;
    report.rows[0].busy = busy;
    NodeJob job = ended(NodeJobKind::memory, "memory-test", memory_json(report));
    job.expect = *parse_expect("site", "gpu_copy=20");
    return no_passes(job);
  };
  REQUIRE(gpu("process 42 python3 is on it").size() == 1);
  CHECK(gpu("process 42 python3 is on it")[0].status == FindingStatus::not_tested);
  REQUIRE(gpu("").size() == 1);
  CHECK(gpu("")[0].status == FindingStatus::fail);
  const auto limit = [](double GBps) {
    BenchReport report;
    report.header.emplace();
    report.header->ranks = 2;
    BenchRow row;
    row.bytes = report.spec.min_bytes = report.spec.max_bytes = 1 << 20;
    row.count = row.bytes / 4;
    row.out_of_place.measured = true;
    row.out_of_place.busbw_GBps = GBps;
    report.rows = {row};
    report.closing.emplace().busy = {{{HostId{0}, "n1"}, "others", false}};
    NodeJob job = ended(NodeJobKind::collective, "allreduce", bench_json(report, Verdict({}, {})));
    job.limits.min_busbw = Limit{.value = 20, .at_bytes = 1 << 20};
    return no_passes(job);
  };
  for (const auto& found_at : {std::function(floor), std::function(limit)}) {
    const auto spoilt = found_at(5), bad = found_at(3.9);
    REQUIRE(spoilt.size() == 1);
    CHECK(spoilt[0].code == ErrorCode::incomplete);
    CHECK(spoilt[0].reason == kBusyHost);
    CHECK(spoilt[0].message.find("(others), so this says little") != std::string::npos);
    REQUIRE(bad.size() == 1);
    CHECK(bad[0].code == ErrorCode::failed);
    CHECK(bad[0].reason != kBusyHost);
  }
}

TEST_CASE("a run without a report: its own error, its exit code, or that its time was up",
          "[check]") {
  const std::string error =
      R"({"schema":"collctl.error/1","code":3,"kind":"unavailable","message":"no GPU","context":[],"hint":""})";
  auto found = no_passes(ended(NodeJobKind::memory, "memory-test", error, 3));
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == ErrorCode::unavailable);
  CHECK(found[0].message == "n1: memory-test: no GPU");
  for (const NodeJobKind kind :
       {NodeJobKind::collective, NodeJobKind::window, NodeJobKind::memory}) {
    found = no_passes(ended(kind, "x", "", 5));
    REQUIRE(found.size() == 1);
    CHECK(found[0].code == ErrorCode::lost);
    CHECK(found[0].message.find("exit code 5") != std::string::npos);
  }
  NodeJob late = ended(NodeJobKind::collective, "allreduce", "");
  late.error = Error(ErrorCode::deadline, "allreduce did not end in time");
  CHECK(no_passes(late)[0].code == ErrorCode::deadline);
}

TEST_CASE("links between GPUs that take another way than P2P are told with their reason",
          "[check]") {
  BenchReport report;
  report.header.emplace();
  report.header->device = "cuda";
  report.header->ranks = 2;
  report.header->links = {{0, 0, 1, "P2P/CUMEM"}, {0, 1, 0, "P2P/CUMEM"}};
  const auto judged = [&] {
    return judge_job(
        ended(NodeJobKind::collective, "allreduce", bench_json(report, Verdict({}, {}))));
  };
  CHECK(judged().on_gpus);
  CHECK(judged().detour.empty());
  report.header->links[1].via = "SHM";
  report.header->links[1].why = "the path is NVL, LOC is the limit";
  CHECK(judged().detour ==
        "1 of 2 links between its GPUs go via SHM: the path is NVL, LOC is the limit");
  report.header->device = "cpu";
  CHECK(judged().detour.empty());
}

TEST_CASE("a barrier is judged by its time, in words that have one", "[check]") {
  BenchReport report;
  report.header.emplace();
  report.header->device = "cuda";
  report.header->ranks = 2;
  BenchRow& row = report.rows.emplace_back();
  row.out_of_place.measured = true;
  row.out_of_place.time_us = 10;
  row.expected = {.time_us = 4, .busbw_GBps = 0, .limited_by = "latency", .source = "model"};
  const NodeJob job =
      ended(NodeJobKind::collective, "barrier", bench_json(report, Verdict({}, {})));
  const auto told = no_passes(job);
  REQUIRE(told.size() == 1);
  CHECK(told[0].message ==
        "n1: 10 us, where 4 (40 %) is what the model expects (limited by latency)");
  CHECK(told[0].measured == "10");
  CHECK(told[0].unit == "us");
  row.expected->source = "assumed";
  CHECK(no_passes(ended(NodeJobKind::collective, "barrier", bench_json(report, Verdict({}, {}))))
            .empty());
  row.bytes = 1 << 30;
  row.out_of_place.busbw_GBps = 300;
  row.expected = {.time_us = 9, .busbw_GBps = 360, .limited_by = "NVLink", .source = "model"};
  const NodeResult good =
      judge_job(ended(NodeJobKind::collective, "allreduce", bench_json(report, Verdict({}, {}))));
  CHECK(good.findings.back().measured == "300");
  CHECK(good.findings.back().basis == "bus bandwidth at 1 GiB; the model expects 360");
  row.expected->source = "assumed";
  CHECK(judge_job(ended(NodeJobKind::collective, "allreduce", bench_json(report, Verdict({}, {}))))
            .findings.back()
            .basis == "bus bandwidth at 1 GiB");
}

TEST_CASE("a way that a machine has not is told and is no fault; any other failure of it is one",
          "[check]") {
  NodeJob job = ended(
      NodeJobKind::collective, "allreduce/shm",
      R"({"schema":"collctl.error/1","code":3,"kind":"unavailable","message":"no shm","context":[],"hint":""})",
      3);
  job.optional = true;
  CHECK(no_passes(job)[0].status == FindingStatus::warn);
  job.output = "";
  job.exit_code = 7;
  CHECK(no_passes(job)[0].code == ErrorCode::bad_data);
}

TEST_CASE("window-test's own verdict is the run's", "[check]") {
  const auto judged = [](const char* verdict) {
    return no_passes(
        ended(NodeJobKind::window, "window-test",
              format(R"({{"schema":"collctl.window-test/1","verdict":{}}})", verdict)));
  };
  CHECK(judged(R"({"ok":true,"reasons":[]})").empty());
  const auto part = judged(
      R"({"ok":false,"reasons":[{"code":"incomplete","message":"no RDMA","host":null,"rank":null}]})");
  REQUIRE(part.size() == 1);
  CHECK(part[0].status == FindingStatus::not_tested);
  const auto bad = judged(
      R"({"ok":false,"reasons":[{"code":"bad-data","message":"torn","host":null,"rank":null}]})");
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].code == ErrorCode::bad_data);
  CHECK(bad[0].message == "n1: window-test: torn");
}

}  // namespace check_node_tests
