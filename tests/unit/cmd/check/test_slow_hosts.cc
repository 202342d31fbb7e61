// The host, GPU of one, or link that slows a collective over all, on a cluster that a function
// plays.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/check/cluster.h"
#include "tests/catch.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace slow_hosts_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

constexpr double kExpected = 50;  // GB/s, of any group

// Hosts with so many ranks each; a group has the least of its members' and their links' shares of
// what is expected.
struct Played {
  explicit Played(int count, int ranks_each = 1, bool gpus = false)
      : ranks_each(ranks_each), gpus(gpus) {
    for (int i = 0; i < count; ++i) hosts.push_back({HostId(i), format("node{:02}", i + 1)});
  }

  int ranks_each;
  bool gpus;
  std::vector<Host> hosts;
  std::map<std::pair<int, int>, double> bad;        // host and its rank (-1: any): its share
  std::map<std::pair<int, int>, double> bad_links;  // of two hosts
  PathMatrix paths;                                 // as pairs has measured them
  double together = 1;                              // of groups of more than half of the hosts
  std::set<int> busy;
  std::optional<Error> breaks;                               // from the third job on
  int wrong_in = 0;                                          // job whose data is wrong
  std::string source = "model", source_of_groups = "model";  // of what is expected
  int jobs = 0;

  double share(const std::vector<std::pair<int, int>>& members) const {
    double least = 0.9;
    std::set<int> of;
    for (const auto& [host, rank] : members) {
      of.insert(host);
      for (const int which : {-1, rank})
        if (const auto at = bad.find({host, which}); at != bad.end())
          least = std::min(least, at->second);
    }
    for (const auto& [link, share] : bad_links)
      if (of.contains(link.first) && of.contains(link.second)) least = std::min(least, share);
    return of.size() * 2 > hosts.size() ? std::min(least, together) : least;
  }
  BenchRow row(double share, int group) const {
    BenchRow row;
    row.bytes = 64 << 20;
    row.group = group;
    row.out_of_place.measured = true;
    row.out_of_place.time_us = 1000 / share;
    row.out_of_place.busbw_GBps = kExpected * share;
    row.expected = RowExpected{1000, kExpected, "eth0", group < 0 ? source : source_of_groups};
    return row;
  }
  BenchReport report(const std::vector<Host>& on, const BenchSpec& spec) {
    BenchReport report;
    report.spec = spec;
    report.header.emplace();
    BenchHeader& header = *report.header;
    std::vector<std::pair<int, int>> members;  // by rank
    for (const Host& host : on) {
      HostLine line{.host = host, .ranks = {}, .devices = {}, .pids = {}};
      for (int rank = 0; rank < ranks_each; ++rank) {
        line.ranks.push_back(header.ranks++);
        if (gpus) line.gpus.push_back({"GPU", format("0000:{:02x}:00.0", rank), 0, ""});
        members.emplace_back(int(host.id), rank);
      }
      header.hosts.push_back(std::move(line));
    }
    if (!spec.split) {
      report.rows.push_back(row(share(members), -1));
      return report;
    }
    REQUIRE(spec.split.fits(header.ranks));
    for (const auto& ranks : groups_of(spec.split, header.ranks)) {
      std::vector<std::pair<int, int>> some;
      for (const int rank : ranks) some.push_back(members[size_t(rank)]);
      report.rows.push_back(row(share(some), int(header.groups.size())));
      header.groups.push_back({ranks, {}});
    }
    if (!busy.empty()) report.closing.emplace();
    for (const int host : busy)
      report.closing->busy.push_back({hosts[size_t(host)], "others took 2 cores"});
    return report;
  }
};

struct Found {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
  std::map<Host, std::string> out;
  std::set<std::pair<Host, Host>> broken;
  BusyHosts busy;
  Status status;
};

Found found(Played& played, std::optional<Deadline> until = std::nullopt) {
  const ParsedLine line = good("check");
  CheckRun run{line, {}};
  run.progress = [](const std::string&) {};
  run.until = until;
  run.hosts = played.hosts;
  run.paths = played.paths;
  BenchSpec spec;
  spec.collective = kernels::Collective::all_reduce;
  const BenchReport whole = played.report(played.hosts, spec);
  Status status =
      find_slow_hosts(run, played.hosts, whole,
                      [&](CheckRun&, const std::vector<Host>& hosts, const BenchSpec& asked,
                          const std::string&, BenchReport& report) -> Result<std::optional<Error>> {
                        ++played.jobs;
                        CHECK(asked.min_bytes == whole.rows[0].bytes);
                        CHECK(asked.max_bytes == whole.rows[0].bytes);
                        CHECK(!asked.plateau);
                        if (played.breaks && played.jobs > 2) return std::optional(*played.breaks);
                        report = played.report(hosts, asked);
                        if (played.jobs == played.wrong_in) report.rows[0].out_of_place.wrong = 3;
                        return std::optional<Error>();
                      });
  return {run.findings, run.culprits, run.out, run.broken, run.busy, std::move(status)};
}

std::string names(const Found& found) {
  std::string text;
  for (const Culprit& culprit : found.culprits) text += (text.empty() ? "" : "; ") + culprit.name;
  return text;
}

}  // namespace

TEST_CASE("the host that slows all is named, with what was measured with and without it",
          "[check]") {
  Played played(16);
  played.bad[{6, -1}] = 0.1;
  const Found result = found(played);
  REQUIRE(result.status.ok());
  REQUIRE(names(result) == "node07");
  CHECK(result.culprits[0].kind == SubjectKind::host);
  CHECK(result.out.size() == 1);
  REQUIRE(result.findings.size() == 1);
  const Finding& finding = result.findings[0];
  CHECK(finding.name == "cluster/slow");
  CHECK(finding.status == FindingStatus::fail);
  CHECK(finding.n == finding.of);
  CHECK(finding.n >= 3);
  CHECK(finding.message.find("(10 % of what is expected), and not in groups without it (90 % of "
                             "what is expected); all the others together have 90 %") !=
        std::string::npos);
}

TEST_CASE("where what is expected is assumed the bandwidth counts, in all groups alike",
          "[check]") {
  Played played(16);
  played.bad[{6, -1}] = 0.1;
  played.source = played.source_of_groups = "assumed";
  Found result = found(played);
  REQUIRE(names(result) == "node07");
  CHECK(result.findings[0].unit == "GB/s");
  CHECK(result.findings[0].message.find("what is expected") == std::string::npos);
  // Some of the groups have no host whose NIC is known.
  played.source = "bound";
  result = found(played);
  REQUIRE(names(result) == "node07");
  CHECK(result.findings[0].message.find("(10 % of what is expected)") != std::string::npos);
}

TEST_CASE("a host that hides behind a worse one is named as well", "[check]") {
  Played played(12);
  played.bad[{2, -1}] = 0.05;
  played.bad[{9, -1}] = 0.3;
  played.bad[{11, -1}] = 0.05;
  CHECK(names(found(played)) == "node03; node12; node10");
}

TEST_CASE("a slow link between two good hosts is named by both ends, and neither host", "[check]") {
  for (int a = 0; a < 16; ++a)
    for (int b = a + 1; b < 16; ++b) {
      Played played(16);
      played.bad_links[{a, b}] = 0.1;
      const Found result = found(played);
      CHECK(names(result) == format("{} - {}", played.hosts[size_t(a)], played.hosts[size_t(b)]));
      CHECK(result.out.empty());
    }
  Played played(16);
  played.bad_links[{2, 9}] = 0.1;
  for (const Host& host : played.hosts) played.paths.ends.push_back({host, "eth0"});
  const Found result = found(played);
  REQUIRE(names(result) == "node03 eth0 - node10 eth0");
  CHECK(result.culprits[0].kind == SubjectKind::link);
  CHECK_FALSE(result.culprits[0].host.named());
  CHECK(result.out.empty());
  CHECK(result.broken == std::set{std::pair(played.hosts[2], played.hosts[9])});
  REQUIRE(result.findings.size() == 1);
  const Finding& finding = result.findings[0];
  CHECK(finding.status == FindingStatus::fail);
  CHECK(finding.n == finding.of);
  CHECK(finding.n >= 2);
  CHECK(finding.message.find("groups of hosts with both (10 % of what is expected), and not in "
                             "groups with one of the two (90 % of what is expected)") !=
        std::string::npos);
  CHECK(finding.remedy.starts_with("collctl rails -H node03,node10 "));
}

TEST_CASE("slow hosts and slow links are told apart where there are both", "[check]") {
  for (const double of_link : {0.1, 0.5}) {
    Played played(16);
    played.bad[{6, -1}] = 0.1;
    played.bad_links[{2, 11}] = of_link;
    CHECK(names(found(played)) == "node07; node03 - node12");
  }
  // The host is the lesser evil.
  Played worse(16);
  worse.bad[{6, -1}] = 0.5;
  worse.bad_links[{2, 11}] = 0.1;
  CHECK(names(found(worse)) == "node03 - node12; node07");
  Played links(16);
  links.bad_links = {{{1, 4}, 0.1}, {{7, 12}, 0.1}};
  CHECK(names(found(links)) == "node02 - node05; node08 - node13");
  // All links of a host are the host.
  Played all(16);
  for (int host = 0; host < 16; ++host)
    if (host != 5) all.bad_links[{std::min(5, host), std::max(5, host)}] = 0.1;
  CHECK(names(found(all)) == "node06");
}

TEST_CASE("of a host with several GPUs the one that is slow is named", "[check]") {
  Played played(8, 4, true);
  played.bad[{5, 2}] = 0.1;
  const Found one = found(played);
  REQUIRE(names(one) == "node06 0000:02:00.0");
  CHECK(one.culprits[0].kind == SubjectKind::gpu);
  CHECK(one.culprits[0].host == played.hosts[5]);
  // All of them: it is the host.
  Played all(8, 4, true);
  all.bad[{5, -1}] = 0.1;
  CHECK(names(found(all)) == "node06");
  // Ranks on cores have nothing to name.
  Played cores(8, 4);
  cores.bad[{5, 2}] = 0.1;
  CHECK(names(found(cores)) == "node06");
}

TEST_CASE("where no host is worse than others it is said, and nobody fails", "[check]") {
  const auto said = [](Played played, std::optional<Deadline> until = std::nullopt) {
    const Found result = found(played, until);
    CHECK(result.culprits.empty());
    CHECK(result.out.empty());
    REQUIRE(result.findings.size() == 1);
    CHECK(result.findings[0].status == FindingStatus::warn);
    return result.findings[0].message;
  };
  Played together(16);
  together.together = 0.2;
  CHECK(said(together).find("it is what they share, and no host") != std::string::npos);
  Played alike(16);
  for (int host = 0; host < 16; ++host) alike.bad[{host, -1}] = 0.2;
  CHECK(said(alike).find("no host is worse than others") != std::string::npos);
  Played two(2);
  two.bad[{1, -1}] = 0.2;
  CHECK(said(two).find("which of two hosts") != std::string::npos);
  // The others are slow without it, too.
  Played both(16);
  both.together = 0.1;
  both.bad[{3, -1}] = 0.1;
  CHECK(said(both).find("groups with node04 are slow and others are not, but all the others "
                        "together are slow as well: 10 %") != std::string::npos);
  // Slow paths between two racks are no link of two hosts.
  Played racks(16);
  for (int host = 0; host < 64; ++host) racks.bad_links[{host / 8, 8 + host % 8}] = 0.1;
  said(racks);
  Played late(16);
  late.bad[{3, -1}] = 0.1;
  CHECK(said(late, Deadline::after_seconds(-1)).find("no time") != std::string::npos);
  Played broken(16);
  broken.bad[{3, -1}] = 0.1;
  broken.breaks = Error(ErrorCode::lost, "rank 3 was lost");
  CHECK(said(broken).find("was not found: rank 3 was lost") != std::string::npos);
}

TEST_CASE("a slow host that was busy with other work meanwhile is measured again", "[check]") {
  Played played(8);
  played.bad[{3, -1}] = 0.4;
  played.busy = {3};
  const Found result = found(played);
  CHECK(result.culprits.empty());
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].status == FindingStatus::not_tested);
  CHECK(result.findings[0].reason == kBusyHost);
  CHECK(result.busy.size() == 1);
  // Below a fifth no excuse holds.
  played.bad[{3, -1}] = 0.05;
  CHECK(names(found(played)) == "node04");
}

TEST_CASE("a slow link of a host that was busy is measured again", "[check]") {
  Played played(8);
  played.bad_links[{3, 5}] = 0.4;
  played.busy = {5};
  const Found result = found(played);
  CHECK(result.culprits.empty());
  CHECK(result.broken.empty());
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].reason == kBusyHost);
  CHECK(result.findings[0].message.find("node06 was busy") != std::string::npos);
}

TEST_CASE("wrong data in a group is no less a fault than in the whole", "[check]") {
  Played played(8);
  played.bad[{3, -1}] = 0.1;
  played.wrong_in = 2;
  const Found result = found(played);
  CHECK(std::ranges::count_if(result.findings, [](const Finding& finding) {
          return finding.code == ErrorCode::bad_data;
        }) == 1);
}

// The findings about one collective that has this share of what is expected.
struct OfCollective {
  std::vector<Finding> findings;
  bool slow = false;
};
OfCollective of_collective(double share, bool busy, bool own_limit = false) {
  Played played(3);
  played.together = share;
  const ParsedLine line = good("check");
  CheckRun run{line, {}};
  run.progress = [](const std::string&) {};
  run.hosts = played.hosts;
  BenchSpec spec;
  spec.collective = kernels::Collective::all_reduce;
  const auto slowest = measure_all(
      run, "cluster", played.hosts, {spec},
      [&](CheckRun&, const std::vector<Host>& hosts, const BenchSpec& asked, const std::string&,
          BenchReport& report) -> Result<std::optional<Error>> {
        report = played.report(hosts, asked);
        if (busy)
          report.closing.emplace().busy = {{played.hosts[1], "others took 2 cores", own_limit}};
        return std::optional<Error>();
      });
  REQUIRE(slowest.ok());
  CHECK(run.busy.empty() == (!busy || own_limit));
  return {run.findings, slowest->has_value()};
}

TEST_CASE("cluster: a busy host excuses what is far below, and not less than a fifth", "[check]") {
  const auto of = [](const OfCollective& made) -> const Finding& {
    REQUIRE(made.findings.size() == 1);
    return made.findings[0];
  };
  const OfCollective idle = of_collective(0.3, false), well = of_collective(0.8, true);
  CHECK(idle.slow);
  CHECK(of(idle).status == FindingStatus::warn);
  CHECK(of(idle).message.find("30 % of the 50") != std::string::npos);
  CHECK_FALSE(well.slow);
  CHECK(of(well).status == FindingStatus::warn);
  const OfCollective excused = of_collective(0.3, true);
  CHECK_FALSE(excused.slow);
  CHECK(of(excused).status == FindingStatus::not_tested);
  CHECK(of(excused).code == ErrorCode::incomplete);
  CHECK(of(excused).reason == kBusyHost);
  CHECK(of(excused).message.find("30 % of the 50") != std::string::npos);
  CHECK(of(excused).message.find("node02 was busy") != std::string::npos);
  for (const bool own_limit : {false, true}) {
    const OfCollective none = of_collective(0.01, true, own_limit);
    CHECK(none.slow);
    CHECK(of(none).reason.empty());
    CHECK(of(none).message.find("1 % of the 50") != std::string::npos);
  }
  CHECK(of_collective(0.3, true, true).slow);
}

}  // namespace slow_hosts_tests
