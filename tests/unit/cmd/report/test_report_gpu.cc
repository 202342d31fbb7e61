// Reports about GPU ranks, and about another library that was measured beside them.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cmd/report/report.h"
#include "tests/catch.h"

namespace report_report_gpu_tests {

using namespace collctl;
using namespace collctl::cmd;
using nlohmann::json;

namespace {

const Verdict kPassed({}, {});

Timing timing(double time_us, std::vector<VersusTiming> versus) {
  Timing t;
  t.measured = true;
  t.time_us = time_us;
  t.wrong = 0;
  t.versus = std::move(versus);
  return t;
}

// Ratios: 20 / 10 = 2 at 1 KiB, 5 / 10 = 0.5 at 1 MiB; their geometric mean is 1.
BenchReport compared_report() {
  BenchReport report;
  report.spec.max_bytes = 1 << 20;
  report.spec.versus = {"default", "ring"};
  report.spec.in_place = InPlace::out_of_place;
  BenchHeader header;
  header.device = "cuda";
  header.ranks = 3;
  header.cuda_graph = 5;
  header.versus = "nccl 2.28.9: default, ring";
  HostLine host{{HostId{0}, "node01"}, {0, 1, 2}, {0, 1, 2}, {7, 8, 9}, {}};
  host.gpus = {{"NVIDIA H200", "0000:0a:00.0", 3 << 20, ""},
               {"NVIDIA H200", "0000:0b:00.0", 3 << 20, ""},
               {"NVIDIA H100", "0000:0c:00.0", 5 << 20, "throttled: power cap"}};
  header.hosts = {host};
  header.note = "GPU 2 (0000:0c:00.0) of node01: throttled: power cap";
  report.header = header;
  BenchRow small, large;
  small.bytes = 1 << 10;
  small.out_of_place = timing(10, {{"nccl 2.28.9", "ring", 20}, {"nccl 2.28.9", "default", 31}});
  large.bytes = 1 << 20;
  large.out_of_place = timing(10, {{"nccl 2.28.9", "default", 5}});
  report.rows = {small, large};
  return report;
}

BenchClosing a_closing() {
  return {
      .busy = {},
      .throttled = {{{HostId{0}, "node01"}, "0000:0c:00.0", 2, 2, "throttled: heat (hardware)"}},
      .left_out = {{"symmetric", "it makes no windows"}},
      .waits = {},
      .other = "nccl 2.28.9",
      .other_variant = "default",
      .costs = true,
      .own_cost = {0.25, 96 << 20, 64 << 20},
      .other_cost = {1.5, 512 << 20, 448 << 20}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("beside another library: the geometric mean and the lowest ratio", "[report]") {
  const Comparison found = compared(compared_report());
  CHECK(found.name == "nccl 2.28.9");
  CHECK(found.timings == 2);
  CHECK(std::abs(found.ratio - 1) < 1e-12);
  CHECK(found.lowest == 0.5);
  CHECK(found.lowest_bytes == 1 << 20);
  CHECK(compared({}).timings == 0);
}

TEST_CASE("beside another library: columns of the table, and of CSV", "[report]") {
  const BenchReport report = compared_report();
  const TextTable table(report.spec, 3);
  CHECK(has(table.titles(), "nccl  ratio"));
  CHECK(has(table.row(report.rows[0]), "20.00   2.00"));
  CHECK(has(table.row(report.rows[1]), "5.000   0.50"));
  BenchRow alone = report.rows[0];
  alone.out_of_place.versus.clear();
  CHECK(has(table.row(alone), "   -      -"));
  CHECK(has(csv_titles(report.spec), "out_of_place_wrong,out_of_place_vs_time_us,"));
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  for (const BenchRow& row : {report.rows[0], alone})
    CHECK(commas(csv_row(report, row)) == commas(csv_titles(report.spec)));
}

TEST_CASE("beside another library: JSON has the best and every variant", "[report]") {
  const json all = json::parse(bench_json(compared_report(), kPassed));
  const json& vs = all["results"][0]["vs"];
  CHECK(vs["name"] == "nccl 2.28.9");
  CHECK(vs["time_us"] == 20);
  CHECK(vs["ratio"] == 2);
  CHECK(vs["variant"] == "ring");
  CHECK(vs["variants"].size() == 2);
  CHECK(vs["variants"][1]["name"] == "default");
  CHECK(all["compared"]["ratio_geometric_mean"] == 1);
  CHECK(all["compared"]["ratio_lowest"] == 0.5);
  CHECK(all["cuda_graph"] == 5);
  CHECK(all["hosts"][0]["gpus"][2]["busid"] == "0000:0c:00.0");
  CHECK(all["hosts"][0]["gpus"][2]["held_bytes"] == 5 << 20);
  CHECK(all["hosts"][0]["gpus"][2]["note"] == "throttled: power cap");
}

TEST_CASE("the header says which GPUs, graphs and what runs beside", "[report]") {
  const BenchReport report = compared_report();
  const std::string brief = text_header(*report.header, false);
  CHECK(has(brief, "3 GPU ranks"));
  CHECK(has(brief, "# host node01: ranks 0-2, GPU 0-1 NVIDIA H200, GPU 2 NVIDIA H100\n"));
  CHECK(has(brief, "# times: of CUDA graphs with 5 operations"));
  CHECK(has(brief, "# beside nccl 2.28.9: default, ring\n"));
  CHECK(has(brief, "# note: GPU 2 (0000:0c:00.0) of node01: throttled: power cap\n"));
  CHECK_FALSE(has(brief, "held"));
  CHECK(has(text_header(*report.header, true),
            "#   rank 2: GPU 2 (0000:0c:00.0), 5 MiB held by the communicator\n"));
}

TEST_CASE("the end says what both sides cost, what was not measured, what throttled", "[report]") {
  BenchReport report = compared_report();
  report.spec.versus = {"default", "symmetric"};
  report.closing = a_closing();
  const Console console(1, 2);
  const auto footer = [&] { return text_footer(report, judge(report, {}, {}), console); };
  CHECK(has(footer(),
            "# First result after   : 0.250 s, nccl 2.28.9 1.500 s\n"
            "# Buffers on a GPU     : 64 MiB, nccl 2.28.9 448 MiB (taken at the start, "
            "with the kernels' code: 96 MiB, nccl 2.28.9 512 MiB)\n"
            "# Not measured         : nccl 2.28.9 (symmetric): it makes no windows\n"
            "# During the run       : GPU 2 (0000:0c:00.0) of node01, rank 2: throttled: "
            "heat (hardware)\n"));
  const json all = json::parse(bench_json(report, judge(report, {}, {})));
  CHECK(
      all["memory"] ==
      json({{"collctl", {{"buffer_bytes", 64 << 20}, {"taken_bytes", 96 << 20}}},
            {"vs",
             {{"variant", "default"}, {"buffer_bytes", 448 << 20}, {"taken_bytes", 512 << 20}}}}));
  CHECK(all["start"] == json({{"collctl_s", 0.25}, {"vs_s", 1.5}}));
  CHECK(all["vs_not_measured"] ==
        json::array({{{"variant", "symmetric"}, {"reason", "it makes no windows"}}}));
  CHECK(all["throttled"] == json::array({{{"host", "node01"},
                                          {"rank", 2},
                                          {"dev", 2},
                                          {"busid", "0000:0c:00.0"},
                                          {"why", "throttled: heat (hardware)"}}}));
  // Unknown memory is null, and not named.
  report.closing->own_cost.buffer_bytes = report.closing->own_cost.taken_bytes = 0;
  CHECK(has(footer(), "# Buffers on a GPU     : not known\n"));
  CHECK(json::parse(bench_json(report, kPassed))["memory"]["collctl"]["taken_bytes"].is_null());
  report.closing->costs = false;
  CHECK_FALSE(has(footer(), "First result"));
  CHECK_FALSE(json::parse(bench_json(report, kPassed)).contains("memory"));
}

TEST_CASE("a variant that was named and not measured is code 8, of the best any will do",
          "[report]") {
  BenchReport report = compared_report();
  report.closing = a_closing();
  const Verdict named = judge(report, {}, {});
  CHECK_FALSE(named.ok());
  CHECK(named.code() == ErrorCode::incomplete);
  CHECK(named.exit_code() == 8);
  REQUIRE(named.reasons().size() == 1);
  CHECK(named.reasons()[0].code == "not-measured");
  CHECK(named.reasons()[0].message ==
        "nccl 2.28.9 (symmetric) was not measured: it makes no windows");
  report.spec.versus_best = true;
  CHECK(judge(report, {}, {}).ok());
  for (BenchRow& row : report.rows) row.out_of_place.versus.clear();
  CHECK(judge(report, {}, {}).code() == ErrorCode::incomplete);
  report.spec.versus_best = false;
  report.closing->left_out.clear();
  CHECK(judge(report, {}, {}).ok());
  // Wrong data is worse.
  report.closing = a_closing();
  report.rows[0].out_of_place.wrong = 3;
  CHECK(judge(report, {}, {}).code() == ErrorCode::bad_data);
}

TEST_CASE("what ranks say of GPUs and of NCCL arrives at the launcher", "[report]") {
  struct Sink : BenchSink {
    std::optional<BenchHeader> got_header;
    std::optional<BenchRow> got_row;
    std::optional<BenchClosing> got_closing;
    void on(BenchRecord record) override {
      if (auto* header = std::get_if<BenchHeader>(&record)) got_header = *header;
      if (auto* row = std::get_if<BenchRow>(&record)) got_row = *row;
      if (auto* closing = std::get_if<BenchClosing>(&record)) got_closing = *closing;
    }
    void progress(const std::string&) override {}
    void phase(int, const std::string&) override {}
  } sink;
  const BenchReport report = compared_report();
  REQUIRE(sink.record(encode_record(*report.header)));
  REQUIRE(sink.record(encode_record(report.rows[0])));
  REQUIRE(sink.got_header);
  CHECK(text_header(*sink.got_header, true) == text_header(*report.header, true));
  REQUIRE(sink.got_row);
  REQUIRE(sink.got_row->out_of_place.versus.size() == 2);
  CHECK(sink.got_row->out_of_place.versus[1].variant == "default");
  CHECK(sink.got_row->out_of_place.ratio() == 2);
  BenchSpec spec = report.spec;
  spec.device_request = DeviceRequest::cuda;
  spec.device = 3;
  spec.cuda_graph = 7;
  spec.misalign = 24;
  spec.window = true;
  spec.p2p = "read";
  spec.soak = true;
  spec.soak_seed = 999'999'999'999'999;
  spec.soak_operations = 99;
  const auto back = bench_of(task_of(spec));
  REQUIRE(back);
  CHECK(json_of(*back) == json_of(spec));
  CHECK(back->device == 3);
  CHECK(back->window);
  CHECK(back->soak_seed == 999'999'999'999'999);
  CHECK(back->versus == spec.versus);
}

}  // namespace report_report_gpu_tests
