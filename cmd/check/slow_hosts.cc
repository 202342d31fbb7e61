// A collective over all hosts is slow: which host, or which GPU of one, makes it so.
#include <algorithm>
#include <map>
#include <numeric>

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
    if (whole.header)
      for (const HostLine& line : whole.header->hosts) lines_[line.host] = line;
  }

  Status find() {
    std::vector<Host> left = hosts_;
    double whole = share_of(row_);
    // Once those that are at fault are left out others may show.
    for (bool any = false;; any = true) {
      Bisection bisection(left, whole, run_.options.below);
      COLL_TRY(bisect(bisection, left));
      std::vector<Host> rest;
      const std::vector<int> culprits = bisection.culprits();
      for (int host = 0; host < int(left.size()); ++host)
        if (std::ranges::count(culprits, host) == 0) rest.push_back(left[size_t(host)]);
      double without = 0;
      if (!culprits.empty() && rest.size() > 1 && has_time()) {
        Round all{HostGroup(rest.size())};
        std::iota(all[0].begin(), all[0].end(), 0);
        COLL_ASSIGN(const auto shares, measure(rest, all, name_ + " without those that are slow"));
        without = shares[0];
        // And with them all are as slow as before: it does not come and go.
        all[0].resize(left.size());
        std::iota(all[0].begin(), all[0].end(), 0);
        COLL_ASSIGN(const auto again, measure(left, all, name_ + " with them again"));
        if (again[0] >= bisection.divide()) without = 0;
      }
      // Without a host that is at fault all are good: slow paths between racks do not pass for it.
      if (without < bisection.divide()) {
        if (!any) add_nobody(bisection, left, culprits, without);
        return {};
      }
      for (const int host : culprits) COLL_TRY(accuse(bisection, left, host, rest, without));
      if (rest.size() < 3 || without >= run_.options.below * bisection.good()) return {};
      left = std::move(rest);
      whole = without;
    }
  }

 private:
  bool has_time() const { return double(until_.remaining_ns()) / 1e9 > last_s_; }

  Status bisect(Bisection& bisection, const std::vector<Host>& hosts) {
    for (Round round = bisection.next(); !round.empty() && has_time(); round = bisection.next()) {
      COLL_ASSIGN(const auto shares, measure(hosts, round,
                                             format("{} in {} groups, round {}", name_,
                                                    round.size(), bisection.rounds() + 1)));
      bisection.take(round, shares);
      if (!error_.empty()) break;
    }
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

  Status accuse(const Bisection& bisection, const std::vector<Host>& hosts, int index,
                const std::vector<Host>& rest, double without) {
    const Host& host = hosts[size_t(index)];
    const auto evidence = bisection.evidence(index);
    Finding finding{.name = "cluster/slow", .at = {.kind = SubjectKind::host, .host = host}};
    COLL_ASSIGN(finding.at.device, slow_gpu(host, rest));
    if (!finding.at.device.empty()) finding.at.kind = SubjectKind::gpu;
    finding.n = uint64_t(evidence.slow);
    finding.of = uint64_t(evidence.tried);
    finding.measured = format("{:.4g}", evidence.ratio);
    finding.expected = format("{:.4g}", run_.options.below * bisection.good());
    finding.basis = format("{:g} of the other groups' median", run_.options.below);
    finding.unit = row_.standard() ? "" : "GB/s";
    const std::string why = format(
        "{} at {} is slow in {} of {} groups of hosts with it ({}), and not in groups "
        "without it ({}); all the others together have {}",
        name_, human_bytes(row_.bytes), evidence.slow, evidence.tried, text_of(evidence.ratio),
        text_of(bisection.good()), text_of(without));
    const std::string name = subject_name(finding.at);
    const auto busy = busy_.find(host);
    if (busy != busy_.end() && is_excusable(evidence.ratio, bisection.good())) {
      spoil(finding,
            format("{}: {}; it was busy ({}), so this says little", name, why, busy->second));
      run_.busy.insert(*busy);
    } else {
      finding.fail(ErrorCode::failed, format("{}: {}", name, why),
                   busy == busy_.end() ? kRemedy : kBusyRemedy);
      run_.out.try_emplace(host, "cluster");
      run_.culprits.push_back({finding.at.kind, name,
                               double(evidence.slow) / double(std::max(evidence.tried, 1)), why,
                               false, host});
    }
    run_.findings.push_back(std::move(finding));
    return {};
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
  void add_nobody(const Bisection& bisection, const std::vector<Host>& hosts,
                  const std::vector<int>& culprits, double without) {
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
    } else if (!culprits.empty()) {
      std::vector<std::string> names;
      for (const int host : culprits) names.push_back(hosts[size_t(host)].name);
      why = format("groups with {} are slow and others are not, but all the others together {}",
                   folded_hosts(names),
                   without > 0 ? "are slow as well: " + text_of(without)
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
  double last_s_ = 0;  // of the last measurement
  std::string error_;  // that ended the search
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
