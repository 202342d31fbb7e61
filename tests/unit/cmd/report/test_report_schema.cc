// Reports as JSON against the page that documents them (docs/json.md): every key of a real report
// is on it, with its type, and what the page says is always there is there. And back again: what
// `report` prints of a saved report is what the run would have printed.
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "cmd/measure/run.h"
#include "cmd/report/read.h"
#include "tests/fake_drivers/nccl_control.h"
#include "tests/fake_drivers/nvml_control.h"
#include "tests/how_much.h"
#include "tests/unit/cmd/json_page.h"
#include "tests/unit/cmd/measure/bench_ranks.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace report_report_schema_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using runtime::testing::host_launcher;
using runtime::testing::set_up_gpus;

namespace {

const Verdict kPassed({}, {});

std::string problems_of(const BenchReport& report, std::set<std::string>& seen) {
  return problems(bench_json(report, judge(report, {}, {})), documented("collctl.bench/1"), seen);
}

BenchReport report_of(const BenchSpec& spec, const BenchOutcome& outcome) {
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  BenchReport report;
  report.spec = spec;
  report.header = outcome.sink.headers.at(0);
  report.rows = outcome.sink.rows;
  report.faults = outcome.sink.faults;
  // Hosts are as busy as a test says, not as this machine was; that may be all a closing says.
  for (BenchClosing closing : outcome.sink.closings) {
    closing.busy.clear();
    if (report.header->device != "cpu" || !closing.waits.empty()) report.closing = closing;
  }
  return report;
}

BenchReport gpu_report() {
  set_up_gpus(2);
  fake_nccl::set_up({.refuse_windows = true, .buffer_bytes = 1 << 20, .code_bytes = 1 << 20});
  fake_nvml::set_throttle("0000:11:00.0", {0x4});
  fake_nvml::set_throttle("0000:10:00.0", {0x0, 0x8});
  BenchSpec spec = small_bench(kernels::Collective::all_reduce);
  spec.device_request = DeviceRequest::cuda;
  spec.launcher = &host_launcher();
  spec.cuda_graph = 2;
  spec.grouped = 2;
  spec.versus = {"default", "ring", "symmetric"};
  BenchReport report = report_of(spec, run_gpu_bench(spec, 2));
  report.closing.value().busy = {{base::saved_host("a"), "its cgroup was throttled 3 times", true}};
  for (const char* bus : {"0000:10:00.0", "0000:11:00.0"}) fake_nvml::set_throttle(bus, {});
  fake_nccl::unload();
  return report;
}

BenchReport cpu_report() {
  BenchSpec spec = small_bench(kernels::Collective::all_reduce);
  spec.sync_each = true;
  spec.time_of = TimeOf::mean;
  return report_of(spec, run_bench(spec, 2));
}

BenchReport stragglers_report() {
  BenchSpec spec = small_bench(kernels::Collective::all_reduce);
  spec.stragglers = true;
  spec.algorithms = {"ring"};
  return report_of(spec, run_bench(spec, 3));
}

// Two of the rows of one-shot are direct: the first has nothing to move.
BenchReport window_report() {
  BenchSpec spec = small_bench(kernels::Collective::all_gather);
  spec.window = true;
  spec.algorithms = {"ring", "one-shot"};
  spec.max_bytes = 700;
  return report_of(spec, run_bench(spec, 2));
}

// With a note: each rank is a team of its own.
BenchReport apart_window_report() {
  BenchSpec spec = small_bench(kernels::Collective::all_gather);
  spec.window = true;
  for (const char* name : {"COLLCTL_SHM_DISABLE", "COLLCTL_P2P_DISABLE"}) setenv(name, "1", 1);
  BenchReport report = report_of(spec, run_bench(spec, 2));
  for (const char* name : {"COLLCTL_SHM_DISABLE", "COLLCTL_P2P_DISABLE"}) unsetenv(name);
  return report;
}

// The report of a run that went on without a lost rank.
BenchReport shrunk_report() {
  BenchReport report = cpu_report();
  report.rows.back().ranks = 1;
  report.losses = {
      {{{1}, {HostId{0}, "elsewhere"}, "it was killed", "look why"}, 1, report.rows.size() - 1}};
  return report;
}

// As a job with a tuner plugin reports it, by way of the records that travel.
BenchReport tuned_report() {
  BenchReport report = cpu_report();
  report.header->tuner = {"Scales", "libnccl-tuner-x.so", 5};
  for (BenchRow& row : report.rows)
    row.tuned = {.followed = true,
                 .wish = "Ring/LL, 2 channels",
                 .algorithm = "one-shot",
                 .protocol = "simple",
                 .channels = 1,
                 .time_us = 2.5};
  KeepingSink sink;
  REQUIRE(sink.record(encode_record(*report.header)));
  for (const BenchRow& row : report.rows) REQUIRE(sink.record(encode_record(row)));
  report.header = sink.headers.at(0);
  report.rows = sink.rows;
  return report;
}

std::string as_text(const BenchReport& report, const Verdict& verdict) {
  const Console console(1, 2);
  const TextTable table(report.spec, report.header->ranks);
  std::string text = text_header(*report.header, false) + table.titles();
  for (const BenchRow& row : report.rows) text += table.row(row);
  return text + variant_tables(report) + text_footer(report, verdict, console);
}

}  // namespace

TEST_CASE("docs/json.md knows every key of real reports", "[gpu][report]") {
  std::set<std::string> seen;
  CHECK(problems_of(gpu_report(), seen) == "");
  CHECK(problems_of(cpu_report(), seen) == "");
  CHECK(problems_of(stragglers_report(), seen) == "");
  CHECK(problems_of(shrunk_report(), seen) == "");
  CHECK(problems_of(window_report(), seen) == "");
  CHECK(problems_of(apart_window_report(), seen) == "");
  CHECK(problems_of(tuned_report(), seen) == "");
  // Keys that only some runs have were among them.
  for (const char* key : {"results[].vs.variants[].time_us",
                          "results[].vs_in_place.ratio",
                          "memory.vs.taken_bytes",
                          "start.collctl_s",
                          "vs_not_measured[].reason",
                          "throttled[].why",
                          "busy_hosts[].own_limit",
                          "hosts[].gpus[].note",
                          "results[].in_place.p99_us",
                          "cuda_graph",
                          "agg_iters",
                          "average",
                          "results[].out_of_place.ranks_us.mean",
                          "beside",
                          "compared.ratio_lowest",
                          "stragglers.ranks[].peers[].recv_wait_us",
                          "results[].straight",
                          "results[].expected.efficiency_in_place",
                          "hosts[].machine",
                          "lost[].ranks[]",
                          "lost[].remedy",
                          "results[].ranks",
                          "windows.bytes",
                          "windows.teams[].ranks[]",
                          "windows.note",
                          "tuner_plugin.version",
                          "results[].tuner.own.time_us",
                          "verdict.reasons[].message"})
    CHECK(seen.count(key) == 1);
}

// Figures as JSON has them, six digits: rounded once more for the table they could come out another
// way than those that were never rounded.
BenchReport as_in_json(BenchReport report) {
  const auto round = [](double& figure) { figure = std::stod(format("{:.6g}", figure)); };
  for (BenchRow& row : report.rows) {
    if (row.expected) round(row.expected->time_us);
    for (Timing* t : {&row.out_of_place, &row.in_place}) {
      for (double* figure : {&t->time_us, &t->p50_us, &t->p99_us, &t->min_us, &t->max_us,
                             &t->algbw_GBps, &t->busbw_GBps})
        round(*figure);
      for (VersusTiming& other : t->versus) round(other.time_us);
    }
  }
  round(report.header->init_seconds);
  if (report.closing)
    for (StartCost* cost : {&report.closing->own_cost, &report.closing->other_cost})
      round(cost->seconds);
  return report;
}

TEST_CASE("a saved report is printed as the run printed it", "[gpu][report]") {
  for (const BenchReport& made : {gpu_report(), cpu_report(), window_report(), tuned_report()}) {
    const BenchReport report = as_in_json(made);
    const Verdict verdict = judge(report, {}, {});
    const std::string saved = bench_json(report, verdict);
    const auto back = read_report(saved);
    INFO((back ? "" : back.error().chain()));
    REQUIRE(back);
    // Derived figures come from rounded ones: round once more before comparing.
    const auto twice = read_report(bench_json(back->report, back->verdict));
    REQUIRE(twice);
    CHECK(as_text(twice->report, twice->verdict) == as_text(back->report, back->verdict));
    const std::string again = as_text(back->report, back->verdict), then = as_text(report, verdict);
    std::istringstream a(again), b(then);
    int lines = 0;
    for (std::string one, other; std::getline(a, one) && std::getline(b, other); ++lines)
      if (one.find("Avg bus bandwidth") == std::string::npos) CHECK(one == other);
    CHECK(lines > 10);
    CHECK(std::count(again.begin(), again.end(), '\n') ==
          std::count(then.begin(), then.end(), '\n'));
  }
}

TEST_CASE("a report says which rows moved directly between windows", "[report]") {
  const BenchReport report = window_report();
  std::vector<std::string> ways, last_words;
  for (const BenchRow& row : report.rows) {
    ways.emplace_back(row.path());
    const std::string line = TextTable(report.spec, 2).row(row), csv = csv_row(report, row);
    last_words.push_back(line.substr(line.rfind(' ') + 1));
    CHECK(csv.substr(csv.rfind(',') + 1) == last_words.back());
  }
  CHECK(ways ==
        std::vector<std::string>{"staged", "staged", "staged", "staged", "direct", "direct"});
  for (size_t i = 0; i < ways.size(); ++i) CHECK(last_words[i] == ways[i] + "\n");
  CHECK(csv_titles(report.spec).ends_with(",path\n"));
  const std::string titles = csv_titles(report.spec), row = csv_row(report, report.rows[4]);
  CHECK(std::count(titles.begin(), titles.end(), ',') == std::count(row.begin(), row.end(), ','));
  CHECK(text_header(*report.header, false).find("team of ranks 0-1\n") != std::string::npos);
  CHECK(text_header(*tuned_report().header, false)
            .find("# tuner plugin: Scales, version 5 of libnccl-tuner-x.so\n") !=
        std::string::npos);
  const std::string apart = text_header(*apart_window_report().header, false);
  CHECK(apart.find("teams of ranks 0, 1\n") != std::string::npos);
  CHECK(apart.find("#   collectives take the staged path: not all ranks map each other's "
                   "memory\n") != std::string::npos);
  CHECK(bench_json(cpu_report(), kPassed).find("straight") == std::string::npos);
}

TEST_CASE("a run that broke off is printed with what it had measured", "[report]") {
  const BenchReport report = cpu_report();
  const Error lost(ErrorCode::lost, "rank 1 was killed");
  const auto back = read_report(bench_json(report, {{}, lost}));
  REQUIRE(back);
  REQUIRE(back->verdict.error());
  CHECK(back->verdict.error()->message == "rank 1 was killed");
  CHECK(back->exit_code == 5);
  CHECK(back->report.rows.size() == report.rows.size());
  CHECK_FALSE(read_report(error_json(lost, 5)).ok());
}

TEST_CASE("reading a report: damage is an error that names a field, never more", "[report]") {
  const std::string good = bench_json(cpu_report(), kPassed);
  REQUIRE(read_report(good).ok());
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < test::how_much(test::Sweep::report_damage); ++i) {
    std::string bad = good;
    for (int edits = 1 + int(random() % 3); edits > 0; --edits) {
      const size_t at = random() % bad.size();
      const char* const with = "0-9\"[]{},:xne";
      switch (random() % 3) {
        case 0:
          bad[at] = with[random() % 13];
          break;
        case 1:
          bad.erase(at, 1 + random() % 20);
          break;
        default:
          bad.insert(at, 1, with[random() % 13]);
      }
    }
    const auto read = read_report(bad);
    if (!read) {
      ++refused;
      CHECK(read.error().code == ErrorCode::usage);
      continue;
    }
    // An accepted report can be printed.
    CHECK_FALSE(as_text(read->report, read->verdict).empty());
  }
  CHECK(refused > test::share(test::Sweep::report_damage, 1000));
  const auto other = read_report("{\"schema\":\"collctl.topo/1\"}");
  REQUIRE_FALSE(other);
  CHECK(other.error().message == "schema 'collctl.topo/1'; expected collctl.bench/1");
}

TEST_CASE("a busy host stands beside the figures, in text and JSON", "[report]") {
  BenchReport report = cpu_report();
  REQUIRE_FALSE(report.closing);
  const Console console(1, 2);
  CHECK(text_footer(report, kPassed, console).find("During the run") == std::string::npos);
  report.closing.emplace().busy = {{{HostId{0}, "a"}, "other processes took 1.5 of 4 cores"}};
  const std::string line = "# During the run       : host a: other processes took 1.5 of 4 cores\n";
  CHECK(text_footer(report, kPassed, console).find(line) != std::string::npos);
  const auto back = read_report(bench_json(report, kPassed));
  REQUIRE(back);
  CHECK(text_footer(back->report, kPassed, console).find(line) != std::string::npos);
}

}  // namespace report_report_schema_tests
