// The figures of a check in some ten lines: a passed check shows what its "passed" rests on.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/judge/blame.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

// Facts of a host, in one line; by their checks.
constexpr const char* kFacts[] = {"doctor/cores",  "doctor/memory", "doctor/gpus",
                                  "doctor/driver", "doctor/rdma",   "doctor/network"};
// Figures, in the order in which they are listed.
struct FigureRow {
  const char* check;
  const char* words;
  const char* against;  // where nothing is asked
  bool sized = false;   // its basis is the size at which it was measured
};
constexpr FigureRow kFigures[] = {
    {"doctor/reach", "connections between hosts", "that there is one"},
    {"node/memory", "copies in host memory", "the median of alike hosts"},
    {"node/GPU memory", "copies in GPU memory", "the median of alike GPUs"},
    {"node/to device", "copies to GPUs", "the median of alike GPUs"},
    {"node/from device", "copies from GPUs", "the median of alike GPUs"},
    {"gpus/read", "slowest reads between GPUs", "what is usual of alike pairs"},
    {"gpus/latency", "slowest loads between GPUs", "what is usual of alike pairs"},
    {"gpu-net/sends", "slowest GPU memory to the network", "what is usual of alike paths"},
    {"gpu-net/receives", "slowest GPU memory from the network", "what is usual of alike paths"},
    {"gpu-net/large", "slowest GPU memory at its largest size", "nothing", true},
    {"gpu-net/large both ways", "and both ways at once, their sum", "nothing", true},
    {"node/allreduce", "all-reduce inside a host", "the median of alike hosts", true},
    {"traffic/moe-dispatch", "tokens to experts over all hosts", "nothing", true},
    {"traffic/moe-dispatch of 1 token", "a token to experts", "nothing"},
    {"traffic/moe-combine of 1 token", "and back", "nothing"},
};

std::string figure_text(const Finding& finding) {
  return four_digits(finding.figure()) + (finding.unit.empty() ? "" : " " + finding.unit);
}

std::string ends_text(const Subject& at) {
  const std::string name = at.peer.named() ? Suspect{at, Way::out}.name() : subject_name(at);
  return name.empty() ? "" : format(" ({})", name);
}

void add_facts(const CheckReport& report, EvidenceList& list) {
  std::map<Host, std::string> facts;
  for (const char* name : kFacts)
    for (const Finding& finding : report.findings) {
      if (finding.name != name || finding.measured.empty()) continue;
      std::string& text = facts[finding.at.host];
      text += (text.empty() ? "" : ", ") + finding.measured +
              (finding.name == "doctor/cores" ? " cores" : "");
    }
  NamesBy<std::string> hosts;  // of the same facts; most first
  for (const Host& host : report.hosts)
    if (const auto own = facts.find(host); own != facts.end())
      hosts[own->second].push_back(host.name);
  auto& kinds = hosts.groups();
  std::ranges::stable_sort(
      kinds, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  constexpr size_t kMostKinds = 3;
  for (size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i)
    list.push_back({folded_hosts(kinds[i].second), kinds[i].first,
                    report.hosts.size() == 1 ? ""
                    : kinds.size() == 1      ? "each other: all alike"
                                             : "each other"});
  if (kinds.size() > kMostKinds)
    list.push_back(
        {"hosts", format("{} more kinds of host", kinds.size() - kMostKinds), "each other"});
}

void add_figures(const CheckReport& report, const FigureRow& row, EvidenceList& list) {
  std::vector<const Finding*> all;
  for (const Finding& finding : report.findings)
    if (finding.name == row.check && finding.figure() > 0)  // else of a rank alone on its host
      all.push_back(&finding);
  if (all.empty()) return;
  const bool less = all[0]->unit == "us";
  std::ranges::sort(all, [&](const Finding* a, const Finding* b) {
    return less ? a->figure() > b->figure() : a->figure() < b->figure();  // the worst first
  });
  std::string found = figure_text(*all[0]) + ends_text(all[0]->at);
  if (all.size() > 1)
    found =
        format("median {} of {}, worst {}", figure_text(*all[all.size() / 2]), all.size(), found);
  const std::string &unit = all[0]->unit, &basis = all[0]->basis, &asked = all[0]->expected;
  std::vector<std::string> against;
  if (!asked.empty())
    against.push_back(format("at {} {} {}", less ? "most" : "least", asked, unit));
  if (asked.empty() && all.size() > 1) against.emplace_back(row.against);
  if (!basis.empty() && row.sized && asked.empty())
    found += ", " + basis;
  else if (!basis.empty())
    against.push_back(basis);
  list.push_back({row.words, found, joined(against)});
}

void add_lone_gpus(const CheckReport& report, EvidenceList& list) {
  std::vector<std::string> hosts;
  for (const GpuReport& host : report.gpus)
    if (host.gpus.size() == 1) hosts.push_back(host.host.name);
  if (!hosts.empty())
    list.push_back({"pairs of GPUs", format("none on {}: one GPU", folded_hosts(hosts)), ""});
}

void add_paths(const CheckReport& report, EvidenceList& list) {
  struct Path {
    double GBps;
    size_t from, to;
  };
  std::vector<Path> all;
  size_t fail = 0;
  const auto& paths = report.paths;
  for (size_t i = 0; i < paths.ends.size(); ++i)
    for (size_t j = 0; j < paths.ends.size(); ++j)
      if (i != j && paths.GBps[i][j] != kNotTried) all.push_back({paths.GBps[i][j], i, j});
  if (all.empty()) return;
  std::ranges::sort(all, {}, &Path::GBps);
  for (const Path& path : all) fail += path.GBps == 0;
  std::string against = "the median of all paths";
  for (const Finding& finding : report.findings)
    if (finding.name == "pairs/paths" && !finding.expected.empty())
      against = finding.expected + " GB/s";
  list.push_back({"paths between hosts",
                  format("{} of {}: median {} GB/s, worst {} ({} -> {})", all.size() - fail,
                         all.size(), four_digits(all[all.size() / 2].GBps),
                         all[0].GBps == 0 ? "nothing passes" : four_digits(all[0].GBps) + " GB/s",
                         paths.ends[all[0].from].text(), paths.ends[all[0].to].text()),
                  against});
}

// The all-reduce, and of the others the one farthest from what is expected.
void add_cluster(const CheckReport& report, EvidenceList& list) {
  const Finding* worst = nullptr;
  double least = 0;
  const auto add = [&](const Finding& finding) {
    list.push_back(
        {format("{} over all hosts", finding.name.substr(finding.name.find('/') + 1)),
         figure_text(finding) + (finding.reason == kBusyHost ? ", while a host was busy" : ""),
         finding.expected.empty()
             ? finding.basis
             : format("{} {} ({})", finding.expected, finding.unit, finding.basis)});
  };
  for (const Finding& finding : report.findings) {
    if (!finding.name.starts_with("cluster/") || finding.measured.empty()) continue;
    if (finding.name == "cluster/allreduce") {
      add(finding);
      continue;
    }
    const double asked = finding.asked();
    if (asked <= 0) continue;
    const double ratio = finding.figure() / asked;
    if (worst != nullptr && ratio >= least) continue;
    worst = &finding;
    least = ratio;
  }
  if (worst != nullptr) add(*worst);
}

// GPUs or cores that went through the burn-in, and the slowest product of the most that have one.
void add_burn(const CheckReport& report, EvidenceList& list) {
  size_t whole = 0, of = 0;
  std::vector<const Finding*> speeds;
  const bool gpus = std::ranges::any_of(
      report.findings, [](const Finding& f) { return f.name == "burn/bf16 speed"; });
  for (const Finding& finding : report.findings) {
    if (finding.name == "burn/whole") {
      ++of;
      whole += finding.status == FindingStatus::pass;
    }
    if (finding.name == (gpus ? "burn/bf16 speed" : "burn/cores") && !finding.measured.empty())
      speeds.push_back(&finding);
  }
  if (of == 0) return;
  std::string found = format("{} of {} devices", whole, of);
  if (!speeds.empty()) {
    const Finding& least = **std::ranges::min_element(speeds, {}, &Finding::figure);
    found += format(": {} at {}{}{}", least.name == "burn/cores" ? "vectors" : "bf16",
                    speeds.size() > 1 ? "worst " : "", figure_text(least), ends_text(least.at));
  }
  list.push_back({"burn-in", found, "each other, and every bit against earlier rounds"});
}

// The things read by findings of this name, of which each host has one.
struct ReadSum {
  uint64_t n = 0, of = 0;
  size_t hosts = 0;
};
ReadSum read_by(const CheckReport& report, std::string_view name) {
  ReadSum sum;
  if (report.soak) return sum;  // its findings count rounds
  for (const Finding& finding : report.findings) {
    if (finding.name != name || finding.of == 0) continue;
    sum.n += finding.n;
    sum.of += finding.of;
    ++sum.hosts;
  }
  return sum;
}

// By the doctor; the counters' own look adds what came since.
void add_state(const CheckReport& report, EvidenceList& list) {
  const ReadSum read = read_by(report, "doctor/state");
  if (read.of == 0) return;
  std::map<FindingStatus, size_t> seen;
  for (const Finding& finding : report.findings)
    if (finding.name.starts_with("doctor/state/") || finding.name.starts_with("counters/state/"))
      ++seen[finding.status];
  const size_t bad = seen[FindingStatus::fail], odd = seen[FindingStatus::warn];
  list.push_back(
      {"state of devices",
       format("{} facts of {} read, {} bad{}", read.n, counted(read.hosts, "host"),
              bad == 0 ? "none" : std::to_string(bad), odd == 0 ? "" : format(", {} to know", odd)),
       "what is right for each, and their peers"});
}

void add_counters(const CheckReport& report, EvidenceList& list) {
  const ReadSum read = read_by(report, "counters/read");
  if (read.of > 0)
    list.push_back({"counters of errors",
                    format("{} of {} read on {}", read.n, read.of, counted(read.hosts, "host")),
                    "their values before, and their absolute limits"});
}

}  // namespace

EvidenceList evidence_of(const CheckReport& report) {
  EvidenceList list;
  add_facts(report, list);
  for (const FigureRow& row : kFigures) add_figures(report, row, list);
  add_lone_gpus(report, list);
  add_paths(report, list);
  add_cluster(report, list);
  add_burn(report, list);
  add_state(report, list);
  add_counters(report, list);
  return list;
}

}  // namespace collctl::cmd
