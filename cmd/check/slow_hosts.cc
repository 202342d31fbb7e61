// A collective over all hosts is slow: which host, GPU of one, or link between two makes it so.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/format.h"
#include "cmd/check/cluster.h"
#include "cmd/judge/bisect.h"
#include "cmd/measure/timing.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr double kMostSeconds = 120;  // without --budget
constexpr size_t kMostSlowLinks = 4;  // more are no matter of two hosts each
constexpr const char* kRemedy =
    "compare its NICs' links, GPU clocks and processors with the others': collctl check --only "
    "node,pairs; collctl topo -H";

class SlowHosts {
 public:
  SlowHosts(CheckRun& run, const std::vector<Host>& hosts, const BenchReport& whole,
            const std::function<MeasureOn>& measure)
      : run_(run),
        measure_(measure),
        hosts_(hosts),
        row_(whole.rows.back()),
        name_(name_of(whole.spec.collective)),
        spec_(whole.spec),
        until_(run.until ? *run.until : Deadline::after_seconds(kMostSeconds)) {
    spec_.min_bytes = spec_.max_bytes = row_.bytes;
    spec_.plateau = false;
    if (!whole.header) return;
    std::map<int, Host> host_of;  // by rank
    for (const HostLine& line : whole.header->hosts) {
      lines_[line.host] = line;
      for (const int rank : line.ranks) host_of[rank] = line.host;
    }
    for (const LinkLine& link : whole.header->links) {
      nics_[{host_of[link.from], host_of[link.to]}].insert(link.from_nic);
      nics_[{host_of[link.to], host_of[link.from]}].insert(link.to_nic);
    }
  }

  Status find() {
    std::vector<Host> left = hosts_;
    double whole = share_of(row_);
    // Once those that are at fault are left out others may show.
    for (bool any = false;; any = true) {
      Bisection bisection(left, whole, run_.options.below);
      Found found;
      COLL_TRY(prove(bisection, left, found));
      if (!found.proved) {
        if (!any) add_nobody(bisection, left, found);
        return {};
      }
      std::vector<Host> rest;
      const Round rests = rests_of(found, int(left.size()));
      for (const int host : rests.back()) rest.push_back(left[size_t(host)]);
      for (const int host : found.hosts) COLL_TRY(accuse_host(bisection, left, host, rest, found));
      for (const auto& link : found.links) accuse_link(bisection, left, link, found);
      if (rest.size() < 3 || found.without >= run_.options.below * bisection.good()) return {};
      left = std::move(rest);
      whole = found.without;
    }
  }

 private:
  // Hosts and links, by the hosts' indexes, and the share that all have without them.
  struct Found {
    std::vector<int> hosts = {};
    std::vector<Bisection::Link> links = {};
    double without = 0;  // 0: not measured
    bool proved = false;
  };

  bool has_time() const { return double(until_.remaining_ns()) / 1e9 > last_s_; }

  Status bisect(Bisection& bisection, const std::vector<Host>& hosts) {
    while (error_.empty() && has_time()) {
      const Round round = bisection.next();
      if (round.empty()) break;
      COLL_ASSIGN(const auto shares, measure(hosts, round,
                                             format("{} in {} groups, round {}", name_,
                                                    round.size(), bisection.rounds() + 1)));
      bisection.take(round, shares);
    }
    return {};
  }

  // All the others: of links once without the first ends and once without the second ones.
  static Round rests_of(const Found& found, int hosts) {
    Round rests;
    for (size_t end = 0; end < (found.links.empty() ? 1 : 2); ++end) {
      HostGroup& rest = rests.emplace_back(size_t(hosts));
      std::iota(rest.begin(), rest.end(), 0);
      std::erase_if(rest, [&](int host) {
        return std::ranges::count(found.hosts, host) > 0 ||
               std::ranges::any_of(found.links, [&](const Bisection::Link& link) {
                 return host == (end == 0 ? link.first : link.second);
               });
      });
    }
    return rests;
  }

  // Without what is found at fault all the others together are good, so that slow paths between
  // racks do not pass for it; where they are slow their groups go on. With it all are as slow as
  // before: it does not come and go.
  Status prove(Bisection& bisection, const std::vector<Host>& hosts, Found& found) {
    for (;;) {
      COLL_TRY(bisect(bisection, hosts));
      Found now{.hosts = bisection.culprits(), .links = bisection.links()};
      const bool known = now.hosts == found.hosts && now.links == found.links;
      if (known || now.links.size() > kMostSlowLinks || !error_.empty()) return {};
      const Round rests = rests_of(now, int(hosts.size()));
      found = std::move(now);
      std::vector<double> shares;
      for (const HostGroup& rest : rests) {
        if (rest.size() < 2 || !has_time()) return {};
        COLL_ASSIGN(const auto share,
                    measure(hosts, {rest}, name_ + " without those that are slow"));
        shares.push_back(share[0]);
      }
      found.without = std::ranges::min(shares);
      if (found.without >= bisection.divide()) break;
      bisection.take(rests, shares);
    }
    HostGroup all(hosts.size());
    std::iota(all.begin(), all.end(), 0);
    COLL_ASSIGN(const auto again, measure(hosts, {all}, name_ + " with them again"));
    found.proved = again[0] > 0 && again[0] < bisection.divide();
    if (!found.proved) found.without = 0;
    return {};
  }

  // Each group's share of what is expected of it; 0 of one that has no figure. Errors: a
  // signal.
  Result<std::vector<double>> measure(const std::vector<Host>& hosts, const Round& round,
                                      const std::string& what) {
    std::vector<int> group_of(hosts.size(), -1);
    for (size_t group = 0; group < round.size(); ++group)
      for (const int host : round[group]) group_of[size_t(host)] = int(group);
    std::vector<Host> some;
    std::vector<int> ranks;  // the group of each
    for (size_t host = 0; host < hosts.size(); ++host) {
      if (group_of[host] < 0) continue;
      some.push_back(hosts[host]);
      ranks.insert(ranks.end(), lines_[hosts[host]].ranks.size(), group_of[host]);
    }
    return measure_ranks(some, std::move(ranks), round.size(), what);
  }

  // The same of groups of ranks of `hosts`, which count host by host.
  Result<std::vector<double>> measure_ranks(const std::vector<Host>& hosts, std::vector<int> ranks,
                                            size_t groups, const std::string& what) {
    const std::vector<int> group_of = ranks;
    spec_.split = SplitRule{SplitBy::ranks, 0, std::move(ranks)};
    BenchReport report;
    const int64_t began = now_ns();
    COLL_ASSIGN(const auto error, measure_(run_, hosts, spec_, what, report));
    last_s_ = double(now_ns() - began) / 1e9;
    std::vector<double> shares(groups, 0);
    if (error) {
      error_ = error->chain();
      return shares;
    }
    for (Finding& finding : findings_of(report, {})) {
      if (finding.status != FindingStatus::fail) continue;  // wrong data
      finding.name = "cluster/slow/" + finding.name;
      run_.findings.push_back(std::move(finding));
    }
    if (report.closing)
      for (const BusyHost& busy : report.closing->busy)
        if (!busy.own_limit) busy_[busy.host] = busy.why;
    for (const BenchRow& row : report.rows) {
      const auto& lines = report.header->groups;
      if (row.group < 0 || size_t(row.group) >= lines.size() ||
          lines[size_t(row.group)].ranks.empty())
        continue;
      const int first = lines[size_t(row.group)].ranks.front();
      if (first >= 0 && size_t(first) < group_of.size())
        shares[size_t(group_of[size_t(first)])] = share_of(row, row_);
    }
    return shares;
  }

  std::string text_of(double share) const {
    return row_.standard() ? format("{:.0f} % of what is expected", 100 * share)
                           : format("{:.4g} GB/s", share);
  }

  Status accuse_host(const Bisection& bisection, const std::vector<Host>& hosts, int index,
                     const std::vector<Host>& rest, const Found& found) {
    const Host& host = hosts[size_t(index)];
    Finding finding{.name = "cluster/slow", .at = {.kind = SubjectKind::host, .host = host}};
    COLL_ASSIGN(finding.at.device, slow_gpu(host, rest));
    if (!finding.at.device.empty()) finding.at.kind = SubjectKind::gpu;
    if (accuse(bisection, hosts, {index}, std::move(finding), "with it", "without it",
               format("all the others together have {}", text_of(found.without)), kRemedy))
      run_.out.try_emplace(host, "cluster");
    return {};
  }

  void accuse_link(const Bisection& bisection, const std::vector<Host>& hosts,
                   const Bisection::Link& link, const Found& found) {
    const Host &a = hosts[size_t(link.first)], &b = hosts[size_t(link.second)];
    Finding finding{.name = "cluster/slow",
                    .at = {.kind = SubjectKind::link,
                           .host = a,
                           .device = nic_of(a, b),
                           .peer = b,
                           .peer_device = nic_of(b, a)}};
    if (accuse(bisection, hosts, {link.first, link.second}, std::move(finding), "with both",
               "with one of the two",
               format("all together have at least {} without the one, and without the other",
                      text_of(found.without)),
               format("collctl rails -H {},{} measures this link alone; then look at its cables, "
                      "switch ports and routes",
                      a, b)))
      run_.broken.insert({a, b});
  }

  // `part`: the host, or both ends of the link. False: it was busy with others' work, which is
  // told.
  bool accuse(const Bisection& bisection, const std::vector<Host>& hosts, const HostGroup& part,
              Finding finding, const char* in, const char* elsewhere, const std::string& others,
              const std::string& remedy) {
    const auto evidence = bisection.evidence(part);
    finding.n = uint64_t(evidence.slow);
    finding.of = uint64_t(evidence.tried);
    finding.measured = format("{:.4g}", evidence.ratio);
    finding.expected = format("{:.4g}", run_.options.below * bisection.good());
    finding.basis = format("{:g} of the other groups' median", run_.options.below);
    finding.unit = row_.standard() ? "" : "GB/s";
    const std::string why = format(
        "{} at {} is slow in {} of {} groups of hosts {} ({}), and not in groups {} ({}); {}",
        name_, human_bytes(row_.bytes), evidence.slow, evidence.tried, in, text_of(evidence.ratio),
        elsewhere, text_of(bisection.good()), others);
    const std::string name = subject_name(finding.at);
    auto busy = busy_.end();
    for (const int host : part)
      if (busy == busy_.end()) busy = busy_.find(hosts[size_t(host)]);
    const bool excused = busy != busy_.end() && is_excusable(evidence.ratio, bisection.good());
    if (excused) {
      spoil(finding, format("{}: {}; {} was busy ({}), so this says little", name, why, busy->first,
                            busy->second));
      run_.busy.insert(*busy);
    } else {
      finding.fail(ErrorCode::failed, format("{}: {}", name, why),
                   busy == busy_.end() ? remedy : kBusyRemedy);
      const Host at = finding.at.kind == SubjectKind::link ? Host{} : finding.at.host;
      run_.culprits.push_back({finding.at.kind, name,
                               double(evidence.slow) / double(std::max(evidence.tried, 1)), why,
                               false, at});
    }
    run_.findings.push_back(std::move(finding));
    return !excused;
  }

  // The NIC that `host` uses towards `peer`; empty: it is not known, or there are several.
  std::string nic_of(const Host& host, const Host& peer) const {
    std::set<std::string> nics;
    if (const auto used = nics_.find({host, peer}); used != nics_.end()) nics = used->second;
    nics.erase("");
    if (nics.empty())
      for (const PathEnd& end : run_.paths.ends)
        if (end.host == host) nics.insert(end.nic);
    return nics.size() == 1 ? *nics.begin() : std::string();
  }

  // The bus number of the one GPU whose ranks are slow beside a good host's, twice, while the
  // host's others are not; empty: it is the host, or cannot be told. Errors: a signal.
  Result<std::string> slow_gpu(const Host& host, const std::vector<Host>& good) {
    const HostLine& line = lines_[host];
    const size_t ranks = line.ranks.size();
    const auto partner = std::ranges::find_if(
        good, [&](const Host& other) { return lines_[other].ranks.size() == ranks; });
    if (ranks < 2 || line.gpus.size() != ranks || partner == good.end()) return std::string();
    std::vector<int> groups;
    for (int host_number = 0; host_number < 2; ++host_number)
      for (size_t rank = 0; rank < ranks; ++rank) groups.push_back(int(rank));
    std::vector<double> most(ranks, 0);  // of two measurements
    for (int times = 0; times < 2; ++times) {
      if (!has_time()) return std::string();
      COLL_ASSIGN(const auto shares, measure_ranks({host, *partner}, groups, ranks,
                                                   format("{}, GPU by GPU of {}", name_, host)));
      for (size_t rank = 0; rank < ranks; ++rank) most[rank] = std::max(most[rank], shares[rank]);
    }
    const double usual = median(most);
    std::string slow;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (most[rank] >= run_.options.below * usual) continue;
      if (!slow.empty()) return std::string();
      slow = line.gpus[rank].bus_id;
    }
    return slow;
  }

  // No host is worse than the others, or it was not found.
  void add_nobody(const Bisection& bisection, const std::vector<Host>& hosts, const Found& found) {
    Finding finding{.name = "cluster/slow", .status = FindingStatus::warn};
    const std::string what = format("{} at {} has {} over {} hosts", name_, human_bytes(row_.bytes),
                                    text_of(share_of(row_)), hosts_.size());
    std::string why;
    if (hosts_.size() < 3) {
      why = "which of two hosts slows it cannot be told";
    } else if (!error_.empty()) {
      why = "which host slows it was not found: " + error_;
    } else if (bisection.groups() == 0) {
      why = "there was no time to find which host slows it";
    } else if (bisection.slow_groups() == 0) {
      why = format("no group of them is slow (median {}): it is what they share, and no host",
                   text_of(bisection.good()));
    } else if (!found.hosts.empty() || !found.links.empty()) {
      std::vector<std::string> names;
      for (const int host : found.hosts) names.push_back(hosts[size_t(host)].name);
      std::string with = folded_hosts(names);
      for (const auto& [a, b] : found.links)
        with += format("{}{} and {} together", with.empty() ? "" : ", ", hosts[size_t(a)],
                       hosts[size_t(b)]);
      why =
          format("groups with {} are slow and others are not, but all the others together {}", with,
                 found.without > 0 ? "are slow as well: " + text_of(found.without)
                                   : "were not, or all of them with these were not slow any more");
    } else if (bisection.good() <= 0) {
      why = format("all {} groups of them are as slow: no host is worse than others",
                   bisection.groups());
    } else {
      why = format(
          "{} of {} groups of them are slow, and no host in all of its groups: links between them "
          "may be (collctl check --only pairs)",
          bisection.slow_groups(), bisection.groups());
    }
    finding.message = format("{}; {}", what, why);
    run_.findings.push_back(std::move(finding));
  }

  CheckRun& run_;
  const std::function<MeasureOn>& measure_;
  const std::vector<Host>& hosts_;
  const BenchRow row_;
  const std::string name_;
  BenchSpec spec_;
  const Deadline until_;
  std::map<Host, HostLine> lines_;
  std::map<std::pair<Host, Host>, std::set<std::string>> nics_;  // of the first, towards the second
  double last_s_ = 0;                                            // of the last measurement
  std::string error_;                                            // that ended the search
  BusyHosts busy_;
};

}  // namespace

double share_of(const BenchRow& row, const BenchRow& like) {
  const Timing& timing = row.first_timing();
  const bool of_expected = like.standard() != nullptr && row.expected;
  return of_expected ? row.expected->efficiency(timing) : timing.busbw_GBps;
}

Status find_slow_hosts(CheckRun& run, const std::vector<Host>& hosts, const BenchReport& whole,
                       const std::function<MeasureOn>& measure) {
  return SlowHosts(run, hosts, whole, measure).find();
}

}  // namespace collctl::cmd
