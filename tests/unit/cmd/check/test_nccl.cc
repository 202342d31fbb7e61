// The suite of the installed NCCL, on runs that a function plays: hosts that differ, who is slow,
// what NCCL's log and RAS say, and that nothing is green that was not measured.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "tests/catch.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace check_nccl_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

NcclHost host(int number, const std::string& version = "2.28.9") {
  NcclHost made{.host = {HostId(number), format("n{}", number)}, .facts = {}};
  made.facts.gpus = 4;
  made.facts.library = {"/usr/lib/libnccl.so." + version, version, ""};
  made.facts.net = {"/opt/libnccl-net.so", "v10", ""};
  return made;
}
std::vector<NcclHost> alike(int count) {
  std::vector<NcclHost> hosts;
  for (int i = 1; i <= count; ++i) hosts.push_back(host(i));
  return hosts;
}

// A cluster whose NCCL has `speed` of what it could have, of ours at each size.
struct Played {
  std::vector<NcclHost> facts = alike(3);
  double nccl_small = 1, nccl_large = 1;  // NCCL's speed by ours
  double again = -1;                      // and when it is measured longer; -1: the same
  std::optional<Error> fails;
  bool fails_watched = true;  // else the timed run
  int wrong_rank = -1;
  std::string busy;
  NcclLog log;
  RasAnswer ras{.address = "localhost:28028", .status = RasStatus{}, .missing = {}};
  std::string own_via = "NET/IB/0/GDRDMA";
  std::vector<std::string> jobs;
  std::vector<BenchSpec> specs;

  Played() {
    log.version = "2.28.9";
    log.network = "IB";
    log.ways = {{"NET/IB/0/GDRDMA", 2, "Channel 00/0 : 0[0] -> 4[0] [send] via NET/IB/0/GDRDMA"}};
    ras.status->version = "2.28.9";
    ras.status->ranks = 12;
    ras.status->communicators = 1;
  }

  BenchReport report(const std::vector<Host>& on, const BenchSpec& spec, bool longer) const {
    BenchReport report;
    report.spec = spec;
    BenchHeader& header = report.header.emplace();
    header.device = "cuda";
    header.versus = "nccl 2.28.9: default";
    for (const Host& host : on) {
      HostLine line{.host = host, .ranks = {}, .devices = {}, .pids = {}};
      for (int i = 0; i < 4; ++i) line.ranks.push_back(header.ranks++);
      header.hosts.push_back(line);
    }
    header.links = {{0, 0, 4, own_via}, {1, 0, 4, own_via}};
    for (const uint64_t bytes : {uint64_t(1024), uint64_t(64) << 20}) {
      BenchRow& row = report.rows.emplace_back();
      row.bytes = bytes;
      row.count = bytes / 4;
      row.type = kernels::DataType::float32;
      row.algorithm = "ring";
      row.protocol = "simple";
      Timing& timing = row.out_of_place;
      timing.measured = true;
      timing.time_us = bytes < (1 << 20) ? 10 : 1000;
      timing.busbw_GBps = double(bytes) / timing.time_us / 1e3;
      timing.wrong = spec.check ? 0 : -1;
      const double speed = longer && again >= 0 ? again
                           : bytes < (1 << 20)  ? nccl_small
                                                : nccl_large;
      VersusTiming other{"nccl 2.28.9", "default", timing.time_us / speed};
      if (spec.versus_watched) other.wrong = wrong_rank >= 0 ? 7 : 0;
      other.wrong_rank = wrong_rank;
      timing.versus.push_back(other);
    }
    BenchClosing& closing = report.closing.emplace();
    if (!busy.empty()) closing.busy.push_back({on[0], busy});
    if (!spec.versus_watched) return report;
    for (size_t i = 0; i < on.size(); ++i) {
      NcclOnHost seen{.host = on[i], .rank = int(4 * i), .log = log, .ras = ras};
      if (i == 0) {
        seen.log.choices = {{"AllReduce", 1024, "Tree", "LL", 1},
                            {"AllReduce", 64 << 20, "Ring", "Simple", 24}};
      }
      closing.nccl.push_back(std::move(seen));
    }
    return report;
  }
};

struct Found {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
  std::map<Host, std::string> out;
  NcclReport report;
  Tally tally;
  Status status;
  std::vector<Finding> of(const std::string& name) const {
    std::vector<Finding> list;
    for (const Finding& finding : findings)
      if (finding.name == name) list.push_back(finding);
    return list;
  }
  std::vector<std::string> bad() const {  // the names of what is no pass
    std::vector<std::string> list;
    for (const Finding& finding : findings)
      if (finding.status != FindingStatus::pass)
        list.push_back(format("{} {}", status_word(finding.status), finding.name));
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }
};
using Names = std::vector<std::string>;

Found found(Played& played) {
  const ParsedLine line = good("check --with nccl --level quick");
  CheckRun run{line, {}};
  run.options.level = CheckLevel::quick;
  run.options.sizes = {.min_bytes = 8, .max_bytes = 1 << 20, .step_factor = 32};
  run.progress = [](const std::string&) {};
  for (const NcclHost& host : played.facts) run.hosts.push_back(host.host);
  const NcclMeasure measure = [&](CheckRun&, const std::vector<Host>& hosts, const BenchSpec& spec,
                                  const std::string& what,
                                  BenchReport& report) -> Result<std::optional<Error>> {
    played.jobs.push_back(what);
    played.specs.push_back(spec);
    if (played.fails && spec.versus_watched == played.fails_watched)
      return std::optional(*played.fails);
    report = played.report(hosts, spec, what.ends_with(" again"));
    return std::optional<Error>();
  };
  Status status = check_nccl_of(run, played.facts, measure);
  return {run.findings, run.culprits,     run.out, run.nccl.value_or(NcclReport{}),
          run.tally,    std::move(status)};
}

}  // namespace

TEST_CASE("nccl: as fast as ours on hosts that are alike", "[check]") {
  Played played;
  const Found all = found(played);
  REQUIRE(all.status);
  CHECK(all.bad() == Names{});
  CHECK(played.jobs == Names{"allreduce", "allreduce, timed", "alltoall", "alltoall, timed"});
  for (const BenchSpec& spec : played.specs) {
    CHECK(spec.versus == Names{"default"});
    CHECK(spec.versus_as_is);
    CHECK(spec.versus_watched == spec.check);
    CHECK(spec.versus_watched == (spec.iterations == 1));
  }
  REQUIRE(all.of("nccl/allreduce").size() == 1);
  const Finding speed = all.of("nccl/allreduce")[0];
  CHECK(speed.measured == "67.11");
  CHECK(speed.unit == "GB/s");
  CHECK(speed.expected == "46.98");
  REQUIRE(all.report.rows.size() == 4);
  CHECK(all.report.rows[0].algorithm == "Tree");
  CHECK(all.report.rows[1].algorithm == "Ring");
  CHECK(all.report.rows[1].channels == 24);
  CHECK(all.report.rows[1].wrong == 0);
  CHECK_FALSE(all.report.rows[1].again);
  CHECK(all.report.name == "nccl 2.28.9");
  CHECK(all.report.ranks == 12);
  CHECK(all.report.seen.size() == 3);
  CHECK(all.tally.planned() == all.tally.done());
  CHECK(all.tally.planned() == 6);
}

TEST_CASE("nccl: slow where the wire is fast fails, and nobody is named", "[check]") {
  Played played;
  played.nccl_large = 0.3;
  const Found all = found(played);
  CHECK(all.bad() == Names{"fail nccl/allreduce", "fail nccl/alltoall"});
  const Finding finding = all.of("nccl/allreduce").at(0);
  CHECK(finding.code == ErrorCode::failed);
  CHECK(finding.at.kind == SubjectKind::job);
  CHECK(finding.message ==
        "allreduce: NCCL is slow, the wire is fast: 20.13 of 67.11 GB/s at 64 MiB (by collctl); "
        "NCCL took Ring/Simple on 24 channels, collctl ring/simple");
  CHECK(all.culprits.empty());
  CHECK(all.out.empty());
  CHECK(std::ranges::count(played.jobs, "allreduce again") == 1);
  CHECK(all.report.rows.at(0).again);
  // Good when both are measured again: nothing.
  played.again = 0.9;
  CHECK(found(played).bad() == Names{});
}

TEST_CASE("nccl: slow at small sizes, and ours slower, are told", "[check]") {
  Played small;
  small.nccl_small = 0.2;
  const Found latency = found(small);
  CHECK(latency.bad() == Names{"warn nccl/allreduce/latency", "warn nccl/alltoall/latency"});
  CHECK(latency.of("nccl/allreduce/latency")
            .at(0)
            .message.find("50.00 us, not 10.00, at 1 KiB (by collctl)") != std::string::npos);
  Played ours;
  ours.nccl_large = 3;
  const Found slow = found(ours);
  CHECK(slow.bad() == Names{"warn nccl/allreduce/ours", "warn nccl/alltoall/ours"});
  CHECK(slow.of("nccl/allreduce/ours")
            .at(0)
            .message.find(
                "collctl is slow, the wire is fast: 67.11 of 201.3 GB/s at 64 MiB (by NCCL)") !=
        std::string::npos);
}

TEST_CASE("nccl: work of others spoils its figures", "[check]") {
  Played played;
  played.nccl_large = 0.3;
  played.busy = "other processes took 4 cores";
  const Found all = found(played);
  CHECK(all.bad() == Names{"not-tested nccl/allreduce", "not-tested nccl/alltoall"});
  CHECK(all.of("nccl/allreduce").at(0).reason == kBusyHost);
  played.nccl_large = 0.05;
  const Found none = found(played);  // no load explains so little
  CHECK(none.bad() == Names{"fail nccl/allreduce", "fail nccl/alltoall"});
}

TEST_CASE("nccl: wrong elements are wrong data of NCCL's, with the rank's host", "[check]") {
  Played played;
  played.wrong_rank = 5;
  const Found all = found(played);
  REQUIRE(all.of("nccl/allreduce/data").size() == 2);
  const Finding finding = all.of("nccl/allreduce/data")[1];
  CHECK(finding.code == ErrorCode::bad_data);
  CHECK(finding.message ==
        "allreduce at 64 MiB: 7 elements of NCCL's result are wrong, first on rank 5 on n2; "
        "collctl's of the same input is right");
  CHECK(all.culprits.empty());
}

TEST_CASE("nccl: a failure has its words, and the rest is not tested", "[check]") {
  for (const bool watched : {true, false}) {
    Played played;
    played.fails = Error(ErrorCode::deadline,
                         "NCCL hangs, not collctl: ncclCommInitRank did not return in time");
    played.fails->on({HostId(2), "n2"});
    played.fails_watched = watched;
    const Found all = found(played);
    REQUIRE(all.status);
    CHECK(all.bad() == Names{"fail nccl/allreduce"});
    const Finding finding = all.of("nccl/allreduce").at(0);
    CHECK(finding.code == ErrorCode::deadline);
    CHECK(finding.at.kind == SubjectKind::job);
    CHECK(finding.message.find("n2") != std::string::npos);
    CHECK(finding.message.find("ncclCommInitRank did not return") != std::string::npos);
    CHECK(played.jobs.back().find("alltoall") == std::string::npos);
    CHECK(all.tally.done() < all.tally.planned());
  }
  Played cpu;
  cpu.fails = Error(ErrorCode::unavailable, "--vs nccl: NCCL works on GPUs, these are CPU ranks");
  CHECK(found(cpu).bad() == Names{"not-tested nccl/allreduce"});
}

TEST_CASE("nccl: without GPUs, library or a second GPU nothing is tested, and why", "[check]") {
  Played played;
  for (NcclHost& one : played.facts) one.facts.gpus = 0;
  Found all = found(played);
  REQUIRE_FALSE(all.status);
  CHECK(all.status.error().code == ErrorCode::incomplete);
  CHECK(all.status.error().message == "no host has an NVIDIA GPU");
  Played without;
  for (NcclHost& one : without.facts)
    one.facts.library = {"", "", "NCCL not found: libnccl.so.2: cannot open shared object file"};
  all = found(without);
  REQUIRE_FALSE(all.status);
  CHECK(all.status.error().code == ErrorCode::incomplete);
  CHECK(all.status.error().message.find("n1: NCCL not found: libnccl.so.2") == 0);
  CHECK(all.bad() == Names{});  // nobody is unlike the others
  Played lone;
  lone.facts.resize(1);
  lone.facts[0].facts.gpus = 1;
  all = found(lone);
  REQUIRE_FALSE(all.status);
  CHECK(all.status.error().code == ErrorCode::incomplete);
  CHECK(lone.jobs.empty());
  lone.facts[0].facts.gpus = 2;
  CHECK(found(lone).status);
  Played some;
  some.facts[1].facts.gpus = 0;
  all = found(some);
  REQUIRE(all.status);
  CHECK(all.of("nccl/none").at(0).reason == kNothingThere);
  CHECK(all.report.seen.size() == 2);
}

TEST_CASE("nccl: hosts that differ from their peers are named", "[check]") {
  auto hosts = alike(4);
  CHECK(nccl_fact_findings(hosts).empty());
  hosts[2].facts.library = host(3, "2.27.3").facts.library;
  hosts[3].facts.net = {};
  hosts[0].facts.variables = {{"NCCL_IB_HCA", "mlx5_0", "/etc/nccl.conf"}};
  hosts[1].facts.tuner.missing = "libnccl-tuner-x.so: cannot open shared object file";
  hosts[1].facts.variables = {{"NCCL_TUNER_PLUGIN", "x", ""}};
  const auto findings = nccl_fact_findings(hosts);
  std::map<std::string, const Finding*> by;
  for (const Finding& finding : findings) by[finding.name + " " + finding.at.host.name] = &finding;
  REQUIRE(by.contains("nccl/version n3"));
  CHECK(by["nccl/version n3"]->status == FindingStatus::fail);
  CHECK(by["nccl/version n3"]->message == "n3: NCCL: 2.27.3, where 3 of 4 hosts have 2.28.9");
  CHECK(by["nccl/version n3"]->odd);
  REQUIRE(by.contains("nccl/net-plugin n4"));
  CHECK(by["nccl/net-plugin n4"]->message ==
        "n4: network plugin: none, where 3 of 4 hosts have libnccl-net.so (v10)");
  REQUIRE(by.contains("nccl/path n3"));
  CHECK(by["nccl/path n3"]->status == FindingStatus::warn);
  REQUIRE(by.contains("nccl/variables n1"));
  CHECK(by["nccl/variables n1"]->message ==
        "n1: NCCL_IB_HCA: mlx5_0, where 3 of 4 hosts have none");
  REQUIRE(by.contains("nccl/plugins n2"));
  CHECK(by["nccl/plugins n2"]->message.find("NCCL_TUNER_PLUGIN=x cannot be used") !=
        std::string::npos);
  CHECK(by.size() == 6);  // and the variable of n2
  // With two nobody knows which is right.
  auto two = alike(2);
  two[1].facts.library.version = "2.27.3";
  const auto both = nccl_fact_findings(two);
  REQUIRE(both.size() == 1);
  CHECK(both[0].status == FindingStatus::fail);
  CHECK(both[0].at.kind == SubjectKind::job);
  CHECK(both[0].message == "NCCL is not alike: 2.28.9 on n1; 2.27.3 on n2");
  // One without the library is unlike the others, and takes no part.
  Played played;
  played.facts[1].facts.library = {"", "", "NCCL not found"};
  const Found all = found(played);
  CHECK(all.bad() == Names{"fail nccl/library"});
  CHECK(all.out.size() == 1);
  CHECK(all.report.seen.size() == 2);
}

TEST_CASE("nccl: sockets beside active ports, no GPUDirect, warnings, by their lines", "[check]") {
  Played played;
  played.log.network = "Socket";
  played.log.network_line = "Using network Socket";
  played.log.ways = {{"NET/Socket/0", 2, "Channel 00/0 : 0[0] -> 4[0] [send] via NET/Socket/0"}};
  for (NcclHost& one : played.facts) one.facts.ports = {"mlx5_0/1", "mlx5_1/1"};
  const Found sockets = found(played);
  CHECK(sockets.bad() == Names{"warn nccl/choice"});
  CHECK(sockets.of("nccl/choice").size() == 3);
  CHECK(sockets.of("nccl/choice")[0].message ==
        "n1: NCCL goes by sockets (\"Using network Socket\") although 2 RDMA ports are active "
        "(mlx5_0/1, mlx5_1/1)");
  for (NcclHost& one : played.facts) one.facts.ports.clear();
  CHECK(found(played).bad() == Names{});
  Played direct;
  direct.log.ways = {{"NET/IB/0", 2, "Channel 00/0 : 0[0] -> 4[0] [send] via NET/IB/0"}};
  direct.log.no_gdr_line = "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 8 > 5)";
  direct.log.warnings = {"something bad"};
  const Found staged = found(direct);
  CHECK(staged.bad() == Names{"warn nccl/choice", "warn nccl/warnings"});
  CHECK(staged.of("nccl/choice")[0].message.find("via NET/IB/0\", \"GPU Direct RDMA Disabled") !=
        std::string::npos);
  direct.own_via = "NET/IB/0";
  CHECK(found(direct).bad() == Names{"warn nccl/warnings"});
  Played mute;
  mute.log = {};
  CHECK(found(mute).bad() == Names{"not-tested nccl/choice"});
}

TEST_CASE("nccl: its RAS, read, missing processes, another's, off", "[check]") {
  Played played;
  played.ras.status->missing = {{"10.0.0.2", 4242, "1", 5, true}};
  const Found missing = found(played);
  CHECK(missing.bad() == Names{"fail nccl/ras"});
  CHECK(missing.of("nccl/ras")[0].message ==
        "by NCCL's RAS on n1 a process does not answer, while all ranks of the job live: process "
        "4242 on 10.0.0.2 (GPU 1), given up");
  CHECK(missing.culprits.empty());
  Played other;
  other.ras.status.reset();
  other.ras.missing = "another job of NCCL's answers at localhost:28028 (pid 7)";
  CHECK(found(other).bad() == Names{"warn nccl/ras"});
  other.ras.address.clear();
  other.ras.missing = "NCCL_RAS_ENABLE=0";
  const Found off = found(other);
  CHECK(off.bad() == Names{});
  CHECK(off.of("nccl/ras").at(0).message == "n1: NCCL's RAS was not read: NCCL_RAS_ENABLE=0");
}

TEST_CASE("nccl: the report comes back from its JSON", "[check]") {
  Played played;
  played.nccl_large = 0.3;
  const Found all = found(played);
  CheckReport report;
  report.hosts = {{HostId(1), "n1"}};
  report.nccl = all.report;
  report.findings = all.findings;
  const Verdict verdict(report.findings, std::nullopt);
  const std::string json = check_json(report, verdict);
  const auto judged = read_judgement(json);
  REQUIRE(judged);
  const auto back = read_check(*judged);
  INFO((back ? "" : back.error().chain()));
  REQUIRE(back);
  REQUIRE(back->nccl);
  REQUIRE(back->nccl->rows.size() == 4);
  CHECK(back->nccl->rows[1].ratio() == Approx(0.3));
  CHECK(back->nccl->rows[1].algorithm == "Ring");
  CHECK(back->nccl->rows[1].again);
  CHECK(back->nccl->hosts.at(2).facts.net.path == "/opt/libnccl-net.so");
  CHECK(back->nccl->seen.at(0).log.ways.at(0).channels == 2);
  CHECK(back->nccl->seen.at(0).ras.status->ranks == 12);
  CHECK(back->nccl->own_ways.at(0).links == 2);
}

}  // namespace check_nccl_tests
