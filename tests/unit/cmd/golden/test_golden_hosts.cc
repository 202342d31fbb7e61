// The output and files of the commands about hosts for fixed records, beside tests/golden.
#include "base/format.h"
#include "cmd/burn/burn.h"
#include "cmd/check/check.h"
#include "cmd/check/gpus.h"
#include "cmd/check/trend.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/nccl_facts/nccl_facts.h"
#include "cmd/saved.h"
#include "cmd/status/ras.h"
#include "cmd/status/status.h"
#include "cmd/text/sizes.h"
#include "cmd/window_test/window_test.h"
#include "tests/golden.h"
#include "tests/unit/cmd/check/trend_checks.h"
#include "tests/unit/cmd/doctor/doctor_hosts.h"

namespace golden_hosts_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

Host node(int number) {
  return {HostId(number - 1), format("node{:02}", number)};
}

// The files that are made of the document, as `report` makes them too.
void hold_files(Goldens& goldens, const std::string& name, const std::string& json,
                const std::vector<std::string>& endings) {
  const std::map<std::string, Format> formats{
      {"jsonl", Format::jsonl}, {"csv", Format::csv},   {"html", Format::html},
      {"svg", Format::svg},     {"xml", Format::junit}, {"prom", Format::prometheus}};
  goldens.hold(name + ".json", json);
  const auto saved = read_saved(json);
  INFO((saved ? "" : saved.error().chain()));
  REQUIRE(saved);
  for (const std::string& ending : endings)
    goldens.hold(format("{}.{}", name, ending), document_as(formats.at(ending), saved->document));
}

const std::vector<std::string> kFiles{"jsonl", "csv", "html", "xml", "prom"};

// Three hosts through all suites, each of which has measured something on each.
CheckReport checked_hosts() {
  CheckReport report;
  report.level = CheckLevel::quick;
  report.seconds = 12.25;
  for (const int number : {1, 2, 3}) report.hosts.push_back(node(number));
  for (const Suite& suite : suites()) {
    report.suites.push_back({.suite = &suite,
                             .end = SuiteEnd::done,
                             .seconds = 1.5,
                             .why = "",
                             .planned = 3,
                             .measured = 3});
    for (const Host& host : report.hosts) {
      Finding& finding =
          report.findings.emplace_back(Finding{.name = format("{}/figure", suite.name)});
      finding.at = {.kind = SubjectKind::host, .host = host};
      finding.measured = "10.5";
      finding.expected = "7";
      finding.unit = "GB/s";
      finding.basis = "0.7 of its peers' median";
    }
  }
  report.paths.ends = {{node(1), "eth0"}, {node(2), "eth0"}, {node(3), "eth0"}};
  report.paths.GBps = {{kNotTried, 1.5, 1.25}, {1.5, kNotTried, 1.5}, {1.25, 1.5, kNotTried}};
  return report;
}

// NCCL on three hosts: slow at a large size, another version on one, a process missing.
NcclReport beside_nccl() {
  NcclReport report;
  report.name = "nccl 2.28.9";
  report.ranks = 6;
  for (const int number : {1, 2, 3}) {
    NcclHost& host = report.hosts.emplace_back();
    host.host = node(number);
    host.facts.gpus = 2;
    host.facts.library = {"/usr/lib/libnccl.so.2.28.9", number == 3 ? "2.27.3" : "2.28.9", ""};
    host.facts.net.missing = "libnccl-net-x.so: cannot open shared object file";
    host.facts.tuner = {"/opt/libnccl-tuner.so", "v5", ""};
    host.facts.files = {{"/etc/nccl.conf", {"line 3 is not NAME=VALUE"}}};
    host.facts.variables = {{"NCCL_NET_PLUGIN", "x", "/etc/nccl.conf"}};
    host.facts.ports = {"mlx5_0/1"};
    NcclOnHost& seen = report.seen.emplace_back();
    seen.host = node(number);
    seen.rank = 2 * (number - 1);
    seen.log.version = "2.28.9+cuda12.9";
    seen.log.network = "Socket";
    seen.log.network_line = "Using network Socket";
    seen.log.channels = 4;
    seen.log.ring = number == 1 ? "0 1 2 3 4 5" : "";
    seen.log.ways = {{"P2P/CUMEM", 8, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"},
                     {"NET/Socket/0", 4, "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0"}};
    seen.log.warnings = {"something bad"};
    seen.ras.address = "localhost:28028";
    if (number == 3) {
      seen.ras.missing = "another job of NCCL's answers at localhost:28028 (pid 7)";
      continue;
    }
    RasStatus& status = seen.ras.status.emplace();
    status.version = "2.28.9";
    status.communicators = 1;
    status.ranks = 5;
    status.pids = {71, 72};
    if (number == 1) status.missing = {{"10.0.0.3", 4242, "1", 5, false}};
    if (number == 2)
      status.problems = {"communicator 0x1: rank 4 on 10.0.0.3 has aborted (code 0)"};
  }
  report.own_ways = {{"NET/IB/0/GDRDMA", 8}, {"P2P/direct pointer", 16}};
  for (const uint64_t bytes : {uint64_t(1024), uint64_t(64) << 20}) {
    NcclRow& row = report.rows.emplace_back();
    row.collective = "allreduce";
    row.bytes = bytes;
    row.own_us = 100;
    row.nccl_us = bytes < (1 << 20) ? 95 : 400;
    row.own_GBps = double(bytes) / 1e5;
    row.nccl_GBps = row.own_GBps * row.own_us / row.nccl_us;
    row.own_algorithm = "ring";
    row.own_protocol = "ll128";
    row.own_channels = 8;
    if (bytes > 1024) {
      row.algorithm = "Ring";
      row.protocol = "Simple";
      row.channels = 2;
    }
    row.wrong = 0;
    row.again = bytes > 1024;
  }
  return report;
}

void hold_check(Goldens& goldens, const std::string& name, const CheckReport& report,
                const std::vector<std::string>& endings) {
  const Verdict verdict(report.findings, std::nullopt);
  goldens.hold(name + ".txt",
               document_text(check_document(report, check_json(report, verdict)), {.width = 100}));
  goldens.hold(name + ".nagios.txt", format("{}--- exit code {}\n", nagios_line(report, verdict),
                                            nagios_code(verdict.exit_code())));
  hold_files(goldens, name, check_json(report, verdict), endings);
}

// From GPU 0 to GPU 2 it has so much of what the others have.
GpuReport three_gpus(int number, double part) {
  GpuReport report{.host = node(number), .bytes = 64 << 20, .gpus = {}, .pairs = {}, .legs = {}};
  for (int g = 0; g < 3; ++g) {
    report.gpus.push_back({.device = format("0000:{}0:00.0", g + 1),
                           .model = "NVIDIA H200",
                           .numa = g / 2,
                           .to_all = 395,
                           .from_all = 390,
                           .sends_of_all = 380,
                           .gets_of_all = 375});
    for (const int near : {0, 1})
      report.legs.push_back({.gpu = g,
                             .node = near,
                             .distance = near == g / 2 ? 10 : 21,
                             .to_GBps = 55.5,
                             .from_GBps = 54.25,
                             .both_GBps = 96});
    for (int to = 0; to < 3; ++to) {
      if (to == g) continue;
      GpuPair& pair = report.pairs.emplace_back();
      pair.from = g;
      pair.to = to;
      pair.path = "NVL";
      const double of = g == 0 && to == 2 ? part : 1;
      pair.figures = {390 * of, 385 * of, 350 * of, 340 * of, 725, 0.75};
    }
  }
  return report;
}

void accuse(CheckReport& report, int number, const std::string& why) {
  for (Finding& finding : report.findings)
    if (finding.name == "node/figure" && finding.at.host == node(number)) {
      finding.measured = "0.25";
      finding.n = 2, finding.of = 3;
      finding.fail(ErrorCode::failed, format("{}: {}", node(number).name, why),
                   "look at its processors");
    }
  report.out[node(number)] = "node";
  report.culprits.push_back({.kind = SubjectKind::host,
                             .name = node(number).name,
                             .confidence = 0.75,
                             .evidence = why,
                             .host = node(number)});
}

Survey surveyed(int count) {
  Survey survey = doctor_tests::healthy(count);
  for (SurveyedHost& host : survey.hosts) host.client = "ssh (libssh2), key ~/.ssh/id_ed25519";
  return survey;
}

void hold_doctor(Goldens& goldens, const std::string& name, const Survey& survey,
                 const Expectation& expect = {}) {
  const Diagnosis diagnosis = diagnose_hosts(survey, expect);
  const Document document = doctor_document(survey, diagnosis, doctor_json(survey, diagnosis));
  goldens.hold(name + ".txt", document_text(document, {.width = 100}));
  goldens.hold(name + ".verbose.txt", document_text(document, {.whole = true}));
  hold_files(goldens, name, document.json, kFiles);
}

// Three hosts of two NICs each; `GBps` of each path, 0: nothing arrives.
RailsReport railed(double (*GBps)(int from, int to, size_t nic, size_t peer)) {
  RailsReport report;
  report.message_bytes = 1 << 20;
  for (const int number : {1, 2, 3}) {
    RailsHost& host = report.hosts.emplace_back();
    host.host = node(number);
    for (const char* name : {"mlx5_0:1", "mlx5_1:1"})
      host.nics.push_back({.name = name,
                           .link = "RoCE",
                           .rdma = true,
                           .rate_Gbps = 320,
                           .mtu = 4096,
                           .lid = 0,
                           .address = "",
                           .gids = {{3, "RoCE v2", format("::ffff:10.0.0.{}", number)}}});
  }
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      RailPair& pair = report.pairs.emplace_back(RailPair{from, to, {}});
      for (const size_t nic : {0, 1})
        for (const size_t peer : {0, 1}) {
          const double speed = GBps(from, to, nic, peer);
          pair.cells.push_back({.end = speed > 0 ? runtime::RailEnd::ok : runtime::RailEnd::silent,
                                .GBps = speed,
                                .resent = 0,
                                .first_us = 5,
                                .from_gid = 3,
                                .to_gid = 3,
                                .gid_type = "RoCE v2",
                                .text = speed > 0 ? "" : "nothing arrived in 3 s"});
        }
    }
  return report;
}

void hold_rails(Goldens& goldens, const std::string& name, const RailsReport& report) {
  const RailsFindings found = judge_rails(report, 0.7);
  const Verdict verdict = found.verdict(std::nullopt);
  const Document document = rails_document(report, found, rails_json(report, found, verdict));
  goldens.hold(name + ".txt", document_text(document, {.width = 100}));
  goldens.hold(name + ".pairs.txt", document_text(document, {.width = 60, .whole = true}));
  std::vector<std::string> files = kFiles;
  files.push_back("svg");
  hold_files(goldens, name, document.json, files);
}

WindowReport windows() {
  WindowReport report;
  report.header.version = "1.2.3";
  report.header.ranks = 4;
  report.header.device_reason = "--device cpu";
  report.header.hosts = {{.host = node(1), .ranks = {0, 1}, .devices = {}, .pids = {11, 12}},
                         {.host = node(2), .ranks = {2, 3}, .devices = {}, .pids = {13, 14}}};
  report.checks = {{.name = "aliasing", .measured = "8", .unit = "comparisons"},
                   {.name = "moves", .measured = "64", .unit = "comparisons"}};
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to)
      if (from != to)
        report.pairs.push_back({.from = from,
                                .to = to,
                                .path = from / 2 == to / 2 ? "window" : "NET/Socket",
                                .put_us = 0.5 + from,
                                .get_us = 1.0 + to,
                                .put_GBps = 8,
                                .get_GBps = 4});
  report.ratios = {{.op = "allreduce", .bytes = 1024, .ordinary_us = 6, .window_us = 2}};
  return report;
}

void hold_windows(Goldens& goldens, const std::string& name, const WindowReport& report,
                  const std::optional<Error>& error = std::nullopt) {
  const Verdict verdict = judge(report, {}, error);
  const Document document = window_document(report, window_json(report, verdict));
  goldens.hold(name + ".txt", document_text(document, {.width = 100}));
  goldens.hold(name + ".whole.txt", document_text(document, {.whole = true}));
  std::vector<std::string> files = kFiles;
  files.push_back("svg");
  hold_files(goldens, name, document.json, files);
}

}  // namespace

namespace {

BurnDevice burnt_gpu() {
  BurnDevice device{.device = "0000:4b:00.0", .model = "H200", .gpu = true};
  device.rounds = 52;
  device.memory_bytes = uint64_t(130) << 30;
  device.memory_passes = 52;
  device.works = {{.what = "bf16", .TFLOPs = 480.5, .products = 9000, .bands = {1, 2}}};
  device.samples = {
      {.at_s = 0, .power_W = 120, .clock_MHz = 1980, .temperature_C = 40, .memory_C = 45},
      {.at_s = 1.5,
       .power_W = 690,
       .clock_MHz = 1755,
       .temperature_C = 66,
       .memory_C = 71,
       .throttled = 4}};
  return device;
}

}  // namespace

TEST_CASE("what check says is as it was", "[golden]") {
  Goldens goldens("check");
  std::vector<std::string> drawn = kFiles;
  drawn.push_back("svg");
  hold_check(goldens, "passed", checked_hosts(), drawn);

  CheckReport failed = checked_hosts();
  accuse(failed, 2, "has 3 % of what others have");
  failed.paths.GBps[0][1] = 0;
  failed.paths.busy = {node(3)};
  Finding& busy = failed.findings.emplace_back(Finding{.name = "node/figure"});
  busy.at = {.kind = SubjectKind::host, .host = node(3)};
  busy.status = FindingStatus::warn;
  busy.reason = kBusyHost;
  busy.odd = true;
  busy.message = "node03: other processes took 1.5 of 2 cores";
  hold_check(goldens, "failed", failed, drawn);

  CheckReport burnt = checked_hosts();
  burnt.burnt = {{node(1), burnt_gpu()}, {node(2), burnt_gpu()}};
  BurnFindings found = judge_burnt(burnt.burnt, 0.7);
  burnt.findings.insert(burnt.findings.end(), found.findings.begin(), found.findings.end());
  burnt.burnt[1].device.wrong = {
      {"memory", "what was written", 7, "byte 0x400c", 0xff00ff00, 0xff00ff10, 1}};
  burnt.burnt = kept_burnt(std::move(burnt.burnt));
  hold_check(goldens, "burnt", burnt, {"html"});

  CheckReport short_of_time = checked_hosts();
  SuiteResult& last = short_of_time.suites.back();
  last = {.suite = last.suite, .end = SuiteEnd::no_time, .why = "no time was left"};
  short_of_time.suites.front().end = SuiteEnd::not_asked;
  short_of_time.suites.front().why = "not asked for";
  short_of_time.findings.push_back(
      Finding{.name = last.suite->name}.leave_out("it was not run: no time was left", "--budget"));
  hold_check(goldens, "not-tested", short_of_time, {"xml", "prom", "html"});

  SoakTotal total(120);
  for (const int number : {1, 2, 3}) {
    CheckReport round = checked_hosts();
    round.round = number;
    round.began = utc_date(1'800'000'000 + 30 * number);
    if (number == 2) accuse(round, 2, "is slow");
    if (number == 2) {
      const CheckReport line = condensed(round);
      goldens.hold("round.jsonl", check_json(line, Verdict(line.findings, std::nullopt)) + "\n");
    }
    total.add(round);
  }
  hold_check(goldens, "soak", total.report("ended by SIGINT"), {"csv"});

  CheckReport gpus = checked_hosts();
  gpus.level = CheckLevel::standard;
  gpus.gpus = {three_gpus(1, 1), three_gpus(2, 0.25)};
  GpusFindings judged = judge_gpus(gpus.gpus, 0.7, {});
  gpus.findings.insert(gpus.findings.end(), judged.findings.begin(), judged.findings.end());
  gpus.culprits = judged.culprits;
  gpus.out[node(2)] = "gpus";
  hold_check(goldens, "gpus", gpus, {"html", "csv"});

  CheckReport nccl = checked_hosts();
  nccl.nccl = beside_nccl();
  for (Finding& finding : nccl_fact_findings(nccl.nccl->hosts)) nccl.findings.push_back(finding);
  for (Finding& finding : nccl_speed_findings(nccl.nccl->rows, 0.7))
    nccl.findings.push_back(finding);
  for (Finding& finding : nccl_seen_findings(*nccl.nccl)) nccl.findings.push_back(finding);
  hold_check(goldens, "nccl", nccl, {"html"});
  goldens.hold("list.txt", suites_text(1, {.level = CheckLevel::quick}) +
                               suites_text(16, {.level = CheckLevel::full, .burn_s = 360}));
  goldens.hold("drain.txt", drain_lines(failed));
}

TEST_CASE("what the trend of a history says is as it was", "[golden]") {
  Goldens goldens("trend");
  std::vector<PastCheck> checks;
  for (int day = 0; day < 9; ++day) {
    PastCheck& past = checks.emplace_back(testing::past_check(day, day < 7 ? 6 : 5));
    for (const Host& host : past.report.hosts)
      testing::measure(past, host.name, "node/memory",
                       10 + 0.25 * (day % 2) - (host == past.report.hosts[0] ? 0.5 * day : 0));
    if (day == 8) testing::accuse(past, "node02", "node/allreduce", "has 3 % of its peers");
    if (day >= 6) testing::accuse(past, "node03", "pairs/blame", "is cut off");
    if (day == 4) testing::accuse(past, "node04", "node/memory", "is slow");
    if (day == 6) testing::accuse(past, "node06", "doctor/gpus", "has 7 of 8");
  }
  HistoryFiles files{.older = 3};
  files.skipped.push_back({"README", "its name does not end in .json", false});
  files.skipped.push_back({"cut.json", "it is no JSON", true});
  const Document failed = trend_document(testing::trend_of(checks), "history", files);
  goldens.hold("failed.txt", document_text(failed, {.width = 100}));
  const std::pair<const char*, Format> kForms[] = {
      {"json", Format::json},      {"jsonl", Format::jsonl}, {"csv", Format::csv},
      {"html", Format::html},      {"svg", Format::svg},     {"xml", Format::junit},
      {"prom", Format::prometheus}};
  for (const auto& [ending, form] : kForms)
    goldens.hold(format("failed.{}", ending), document_as(form, failed));
  goldens.hold("none.txt", document_text(trend_document({}, "history", {}), {.width = 100}));
}

TEST_CASE("what doctor says is as it was", "[golden]") {
  Goldens goldens("doctor");
  hold_doctor(goldens, "passed", surveyed(3));
  hold_doctor(goldens, "one-host", surveyed(1));
  Survey ill = surveyed(3);
  ill.hosts[0].facts->cores = 2;
  ill.hosts[1].facts->interfaces[2].mtu = 1500;
  ill.hosts[1].facts->nvidia = {"550.54", {"H200"}, 1};
  ill.hosts[1].gpus = {"the CUDA driver: start: CUDA_ERROR_SYSTEM_NOT_READY",
                       "is nvidia-fabricmanager running?"};
  ill.hosts[2].facts.reset();
  ill.hosts[2].error = Error(ErrorCode::launch, "connection refused", "is sshd running?");
  std::erase_if(ill.pairs, [](const PairResult& pair) { return pair.from == 2 || pair.to == 2; });
  hold_doctor(goldens, "failed", ill);
}

TEST_CASE("what rails says is as it was", "[golden]") {
  Goldens goldens("rails");
  hold_rails(goldens, "passed", railed([](int, int, size_t, size_t) { return 40.0; }));
  hold_rails(goldens, "failed", railed([](int from, int to, size_t nic, size_t peer) {
               if (from == 0 && to == 2 && nic == 1 && peer == 1) return 0.0;
               return (from == 1 && nic == 1) || (to == 1 && peer == 1) ? 4.0 : 40.0;
             }));
}

TEST_CASE("what window-test says is as it was", "[golden]") {
  Goldens goldens("window-test");
  hold_windows(goldens, "passed", windows());
  WindowReport failed = windows();
  std::vector<WindowFindings> ranks(4);
  for (WindowFindings& rank : ranks) rank.looked(5);
  ranks[1].fail(ErrorCode::bad_data, 3, "put of 64 bytes: byte 7 is 0, not 42");
  failed.checks.push_back(merged_check("ordering", ranks, failed.culprits));
  failed.pairs_left_out = 2;
  hold_windows(goldens, "failed", failed);
  WindowReport broken = windows();
  const Error lost(ErrorCode::lost, "rank 3 is gone", "killed by hand?");
  add_broken_stage(broken, "barriers", lost);
  hold_windows(goldens, "lost", broken, lost);
}

TEST_CASE("what burn-test writes is as it was", "[golden]") {
  Goldens goldens("burn-test");
  BurnReport report{.host = "node01", .seconds = 60, .devices = {}};
  report.devices = {burnt_gpu(), burnt_gpu()};
  BurnDevice& bad = report.devices[1];
  bad.device = "0000:4c:00.0";
  bad.why_not = "GPU 1 (0000:4c:00.0) does not go on";
  bad.code = ErrorCode::deadline;
  bad.wrong = {{"bf16", "earlier rounds", 3, "row 5, column 9", 0x3f808000, 0x3f80a000, 1}};
  goldens.hold("report.txt", document_text(burn_document(report, burn_json(report)), {}));
  hold_files(goldens, "report", burn_json(report), {"csv"});
  const auto saved = read_saved(burn_json(report));
  REQUIRE(saved.ok());
  CHECK(saved->document.judged.exit_code == int(ErrorCode::bad_data));
}

TEST_CASE("what nccl-facts and status --ras write is as it was", "[golden]") {
  Goldens goldens("nccl");
  NcclFacts facts = beside_nccl().hosts[0].facts;
  facts.host = "node01";
  goldens.hold("facts.txt", document_text(nccl_facts_document(facts, nccl_facts_json(facts)), {}));
  hold_files(goldens, "facts", nccl_facts_json(facts) + "\n", {"csv"});
  RasReport ras{"localhost:28028", *beside_nccl().seen[0].ras.status};
  RasStatus& status = ras.status;
  status.missing.push_back({"10.0.0.4", 4343, "0,1", -1, true});
  status.timeouts = 2;
  goldens.hold("ras.txt", document_text(ras_document(ras, ras_json(ras)), {}));
  hold_files(goldens, "ras", ras_json(ras), {"csv"});
  status.missing.clear();
  status.timeouts = 0;
  goldens.hold("ras-well.txt", document_text(ras_document(ras, ras_json(ras)), {}));
}

TEST_CASE("what memory-test writes is as it was", "[golden]") {
  Goldens goldens("memory-test");
  const MemoryReport report{
      "node01",
      {{.device = "host", .what = "copy", .GBps = 20.5, .busy = "others took 1 of 4 cores"},
       {.device = "0000:4b:00.0",
        .model = "H100",
        .what = "to device",
        .GBps = 50,
        .wrong = true}}};
  goldens.hold("rows.txt", document_text(memory_document(report, memory_json(report)), {}));
  hold_files(goldens, "rows", memory_json(report), {"csv"});
}

TEST_CASE("what gpu-test writes is as it was", "[golden]") {
  Goldens goldens("gpu-test");
  GpuReport report = three_gpus(1, 0.25);
  report.pairs[0].wrong = {"read"};
  for (GpuPair& pair : report.pairs)
    if (pair.from + pair.to == 3) {
      pair.figures = {};
      pair.why = "GPU 1 cannot access the memory of GPU 2";
    }
  report.legs[1].wrong = true;
  report.no_nodes = "memory that was to lie on NUMA node 1 lies on node 0";
  report.busy = "others took 1 of 4 cores";
  goldens.hold("pairs.txt", document_text(gpu_document(report, gpu_json(report)), {.width = 100}));
  hold_files(goldens, "pairs", gpu_json(report), {"csv"});
}

TEST_CASE("what status says is as it was", "[golden]") {
  Goldens goldens("status");
  JobNow job{.pid = 4711, .what = "allreduce", .seconds = 61.5, .progress = "512 KiB, 3 of 20"};
  for (const int rank : {0, 1, 2})
    job.ranks.push_back({.rank = rank,
                         .host = node(rank / 2 + 1),
                         .pid = 4712 + rank,
                         .phase = "measure",
                         .state = rank == 2 ? "T" : "S"});
  for (const size_t rank : {0, 1}) {
    RankDoing& doing = job.ranks[rank].doing.emplace();
    doing.rank = int(rank);
    doing.calls = 17;
    doing.last = "allreduce";
    doing.busy = true;
    doing.waits = {{.peer = 2,
                    .receives = rank == 0,
                    .seconds = 12.5,
                    .operation = "allreduce",
                    .algorithm = "ring",
                    .protocol = "simple",
                    .number = 17,
                    .channel = 1,
                    .step = 4,
                    .seen = 3,
                    .wanted = 4}};
  }
  const JobNow program{.pid = 5000,
                       .what = "python3",
                       .seconds = 3,
                       .answers = false,
                       .ranks = {{.rank = 0, .host = node(1), .pid = 5001, .state = "R"}}};
  const JobNow jobs[] = {job, program};
  goldens.hold("job.txt", document_text(status_document({&job, 1}), {}));
  goldens.hold("program.txt", document_text(status_document({&program, 1}), {}));
  const Document list = status_document(jobs);
  goldens.hold("jobs.txt", document_text(list, {}));
  goldens.hold("jobs.json", list.json);
}

}  // namespace golden_hosts_tests
