#include "cmd/check/gpus.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/check/gpus_usual.h"
#include "cmd/judge/blame.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

class GpuJudge {
 public:
  GpuJudge(std::span<const GpuReport> reports, double below, const Floors& floors)
      : reports_(reports), below_(below), floors_(floors), usual_(reports) {}
  GpusFindings run() {
    for (const GpuReport& report : reports_) {
      pardoned_ = 0;
      judge_pairs(report, false);
      judge_pairs(report, true);
      judge_totals(report);
      judge_legs(report);
      say_rest(report);
    }
    return std::move(out_);
  }

 private:
  GpuAsked asked_of(const GpuReport& report, double usual) const {
    return {.usual = usual, .below = below_, .busy = report.busy};
  }
  const Floor* floor_of(const GpuReport& report, const GpuPair& pair, PairFigure figure) const;
  GpuFigure judge(const GpuReport& report, const GpuPair& pair, PairFigure figure) const;
  void judge_pairs(const GpuReport& report, bool latency);
  void name_culprits(const GpuReport& report, const Suspects& parts,
                     const std::vector<Trial>& trials, const std::vector<std::string>& texts,
                     const std::vector<bool>& wrong);
  void accuse(Subject at, const std::string& name, Way way, uint64_t bad, uint64_t of,
              const std::string& evidence, const char* remedy, ErrorCode code);
  void judge_totals(const GpuReport& report);
  void judge_legs(const GpuReport& report);
  void say_rest(const GpuReport& report);
  void worst_of(const GpuReport& report, PairFigure figure);

  std::span<const GpuReport> reports_;
  double below_;
  const Floors& floors_;
  const GpuUsual usual_;
  GpusFindings out_;
  size_t pardoned_ = 0;          // of the host
  std::set<std::string> named_;  // GPUs of the host that are at fault
};

// Public figures are of NVLink.
const Floor* GpuJudge::floor_of(const GpuReport& report, const GpuPair& pair,
                                PairFigure figure) const {
  const std::string& model = report.gpus[size_t(pair.to)].model;
  const bool has_one = figure == PairFigure::read && pair.path.starts_with("NVL") &&
                       model == report.gpus[size_t(pair.from)].model;
  return has_one ? find_floor(floors_, model, "peer_read") : nullptr;
}

GpuFigure GpuJudge::judge(const GpuReport& report, const GpuPair& pair, PairFigure figure) const {
  const GpuAsked asked{.usual = usual_.pair(report, pair, figure),
                       .floor = floor_of(report, pair, figure),
                       .less_is_better = less_is_better(figure),
                       .below = below_,
                       .busy = report.busy};
  const FigureWords& words = words_of(figure);
  GpuFigure out = held_figure(pair.of(figure), asked, words.name, words.unit);
  if (std::ranges::count(pair.wrong, words.name) == 0) return out;
  out.bad = true;
  out.pardoned = false;
  out.ratio = 0;
  out.text = format("{}: what arrived is not what was sent", words.name);
  return out;
}

constexpr const char* kBadPairs =
    "look at its NVLinks or slot, clocks and errors (nvidia-smi nvlink -s and -e, nvidia-smi -q -d "
    "CLOCK,PERFORMANCE,ECC, collctl topo); then reset it, and dcgmi diag -r 3";
constexpr const char* kBadGpuLink =
    "both GPUs are good with the others: look at the NVLinks or the bridge between the two "
    "(nvidia-smi nvlink -s and -e), and how PCIe joins them (collctl topo)";
constexpr const char* kBadGpuHost =
    "look at what its GPUs share: NVSwitches and the fabric manager (nvidia-smi -q), ACS and IOMMU "
    "(collctl topo), clocks and power limits";
constexpr const char* kBadHostMemory =
    "compare the slot's PCIe speed and width (collctl topo), the memory of the NUMA node "
    "(dmidecode -t memory) and who uses it (numastat)";

void GpuJudge::accuse(Subject at, const std::string& name, Way way, uint64_t bad, uint64_t of,
                      const std::string& evidence, const char* remedy, ErrorCode code) {
  Finding& finding = out_.findings.emplace_back();
  finding.name = "gpus/blame";
  finding.at = std::move(at);
  finding.n = bad;
  finding.of = of;
  finding.fail(code, format("{} {}: {}", subject_word(finding.at.kind), name, evidence), remedy);
  if (way != Way::both && finding.at.kind != SubjectKind::link)
    finding.reason = way == Way::out ? "sends" : "receives";
  if (finding.at.kind == SubjectKind::gpu) named_.insert(finding.at.device);
  const auto known = std::ranges::find_if(out_.culprits, [&](const Culprit& one) {
    return one.kind == finding.at.kind && one.host == finding.at.host && one.name == name;
  });
  if (known != out_.culprits.end()) {
    known->evidence += "; " + evidence;
    return;
  }
  out_.culprits.push_back({finding.at.kind, name, of == 0 ? 1 : double(bad) / double(of), evidence,
                           false, finding.at.host});
}

// Latency is held_figure apart: what makes it bad leaves speeds good, and the other way round.
void GpuJudge::judge_pairs(const GpuReport& report, bool latency) {
  if (!latency) named_.clear();
  Suspects parts;
  std::vector<Trial> trials;
  std::vector<std::string> texts;
  std::vector<bool> wrong;
  const int host = parts.add({.kind = SubjectKind::host, .host = report.host});
  const auto subject = [&](int gpu) {
    return Subject{
        .kind = SubjectKind::gpu, .host = report.host, .device = report.gpus[size_t(gpu)].device};
  };
  for (const GpuPair& pair : report.pairs)
    for (size_t f = 0; f < kPairFigures; ++f) {
      const auto figure = PairFigure(f);
      if (pair.figures[f] <= 0 || less_is_better(figure) != latency) continue;
      const Subject from = subject(pair.from), to = subject(pair.to);
      Subject link = from;
      link.kind = SubjectKind::link;
      link.peer = to.host;
      link.peer_device = to.device;
      Trial trial{.parts = {host, parts.add(from), parts.add(to), parts.add(link)}};
      if (figure != PairFigure::latency) {
        for (const int part :
             {parts.add(from, Way::out), parts.add(to, Way::in), parts.add(link, Way::out)})
          trial.parts.push_back(part);
        if (figure == PairFigure::both) {
          std::swap(link.device, link.peer_device);
          for (const int part :
               {parts.add(from, Way::in), parts.add(to, Way::out), parts.add(link, Way::out)})
            trial.parts.push_back(part);
        }
      }
      const GpuFigure seen = judge(report, pair, figure);
      trial.bad = seen.bad;
      trial.ratio = seen.ratio;
      pardoned_ += seen.pardoned ? 1 : 0;
      trials.push_back(std::move(trial));
      texts.push_back(format("{} -> {}: {}", from.device, to.device, seen.text));
      wrong.push_back(std::ranges::count(pair.wrong, words_of(figure).name) > 0);
    }
  if (std::ranges::any_of(trials, &Trial::bad)) {
    out_.suspects.insert(report.host);
    name_culprits(report, parts, trials, texts, wrong);
  }
}

void GpuJudge::name_culprits(const GpuReport& report, const Suspects& parts,
                             const std::vector<Trial>& trials,
                             const std::vector<std::string>& texts,
                             const std::vector<bool>& wrong) {
  const Blame found = blame(parts.all(), trials);
  const auto examples = [&](const std::vector<size_t>& of) {
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(of.size(), 2); ++i)
      text += (i == 0 ? "" : "; ") + texts[of[i]];
    return of.size() > 2 ? format("{}; and {} more", text, of.size() - 2) : text;
  };
  const auto code = [&](const std::vector<size_t>& of) {
    return std::ranges::any_of(of, [&](size_t t) { return wrong[t]; }) ? ErrorCode::bad_data
                                                                       : ErrorCode::failed;
  };
  for (const Blamed& one : found.culprits) {
    std::vector<size_t> bad;
    for (size_t t = 0; t < trials.size(); ++t)
      if (trials[t].bad && std::ranges::count(trials[t].parts, one.part) > 0) bad.push_back(t);
    // Directions of one part that cannot be told apart are that part.
    Suspect part = parts[one.part];
    const bool one_part = std::ranges::all_of(one.alternatives, [&](int other) {
      return whole_of(parts[other].at) == whole_of(part.at);
    });
    if (one_part && !one.alternatives.empty()) part = {whole_of(part.at), Way::both};
    const std::string counts = format("{} of {} measurements are bad", one.bad, one.tried);
    if (!one_part) {
      // All of them are parts of this host.
      accuse({.kind = SubjectKind::host, .host = report.host}, report.host.name, Way::both,
             uint64_t(one.bad), uint64_t(one.tried),
             format("{} between its GPUs, which cannot say which of these it is: {} ({})", counts,
                    names_of(one, parts), examples(bad)),
             kBadGpuHost, code(bad));
      continue;
    }
    const char* way = part.at.kind == SubjectKind::link || part.way == Way::both ? ""
                      : part.way == Way::out                                     ? "what it sends: "
                                             : "what it receives: ";
    accuse(part.at, part.name(), part.way, uint64_t(one.bad), uint64_t(one.tried),
           format("{}{}, {:.0f} % of what is usual ({})", way, counts, 100 * one.median_ratio,
                  examples(bad)),
           part.at.kind == SubjectKind::host  ? kBadGpuHost
           : part.at.kind == SubjectKind::gpu ? kBadPairs
                                              : kBadGpuLink,
           code(bad));
  }
  // Too few for a part to be named by them; but it was so twice, and it is between these two.
  std::map<std::string, std::vector<size_t>> alone;
  std::map<std::string, Suspect> links;
  for (const int t : found.unexplained)
    for (const int part : trials[size_t(t)].parts)
      if (parts[part].at.kind == SubjectKind::link && parts[part].way == Way::both) {
        alone[parts[part].name()].push_back(size_t(t));
        links.try_emplace(parts[part].name(), parts[part]);
      }
  for (const auto& [name, bad] : alone)
    accuse(links.at(name).at, name, Way::both, bad.size(), 0, examples(bad), kBadGpuLink,
           code(bad));
}

// Sums over several pairs at once are held against those of alike GPUs with alike paths. A low sum
// that a GPU already at fault explains is not reported twice.
void GpuJudge::judge_totals(const GpuReport& report) {
  for (size_t t = 0; t < kGpuTotals.size(); ++t) {
    const GpuTotal& total = kGpuTotals[t];
    std::vector<std::pair<size_t, GpuFigure>> bad;
    size_t measured = 0;
    for (size_t g = 0; g < report.gpus.size(); ++g) {
      const double value = report.gpus[g].*total.value;
      if (value <= 0) continue;
      ++measured;
      const GpuFigure seen =
          held_figure(value, asked_of(report, usual_.total(t, report, g)), total.name, "GB/s");
      pardoned_ += seen.pardoned ? 1 : 0;
      if (seen.bad) bad.emplace_back(g, seen);
    }
    if (bad.empty()) continue;
    out_.suspects.insert(report.host);
    const bool told = std::ranges::any_of(
        out_.culprits, [&](const Culprit& one) { return one.host == report.host; });
    if (told) continue;
    if (bad.size() > 1 && bad.size() == measured) {
      accuse({.kind = SubjectKind::host, .host = report.host}, report.host.name, Way::both,
             bad.size(), measured, format("all its GPUs: {}", bad[0].second.text), kBadGpuHost,
             ErrorCode::failed);
      continue;
    }
    for (const auto& [g, seen] : bad) {
      const Subject at{
          .kind = SubjectKind::gpu, .host = report.host, .device = report.gpus[g].device};
      accuse(at, subject_name(at), total.way, 1, 1, seen.text, kBadPairs, ErrorCode::failed);
    }
  }
}

// Host memory: of alike boards at the same distance. Where most GPUs of a host are bad with one
// node, it is that node's memory.
void GpuJudge::judge_legs(const GpuReport& report) {
  struct Bad {
    std::set<int> gpus;
    std::map<int, std::string> texts;  // the first of each GPU
  };
  std::map<int, Bad> nodes;
  std::map<int, std::set<int>> tried;
  for (size_t w = 0; w < kGpuLegWays.size(); ++w)
    for (const HostLeg& leg : report.legs) {
      tried[leg.node].insert(leg.gpu);
      const GpuFigure seen =
          held_figure(leg.*kGpuLegWays[w].value, asked_of(report, usual_.leg(w, report, leg)),
                      kGpuLegWays[w].name, "GB/s");
      pardoned_ += seen.pardoned ? 1 : 0;
      if (!seen.bad) continue;
      nodes[leg.node].gpus.insert(leg.gpu);
      nodes[leg.node].texts.try_emplace(leg.gpu, seen.text);
    }
  const auto memory = [](int node) {
    return node < 0 ? std::string("host memory") : format("memory of NUMA node {}", node);
  };
  std::map<int, std::string> of_gpu;  // evidence
  for (const auto& [node, bad] : nodes) {
    out_.suspects.insert(report.host);
    if (bad.gpus.size() > 1 && 2 * bad.gpus.size() > tried[node].size()) {
      accuse({.kind = SubjectKind::host, .host = report.host}, report.host.name, Way::both,
             bad.gpus.size(), tried[node].size(),
             format("{} with {} of {} GPUs: {}", memory(node), bad.gpus.size(), tried[node].size(),
                    bad.texts.begin()->second),
             kBadHostMemory, ErrorCode::failed);
      continue;
    }
    for (const auto& [gpu, text] : bad.texts)
      of_gpu[gpu] += format("{}{}, {}", of_gpu[gpu].empty() ? "" : "; ", memory(node), text);
  }
  for (const HostLeg& leg : report.legs)
    if (leg.wrong) {
      out_.suspects.insert(report.host);
      const Subject at{.kind = SubjectKind::gpu,
                       .host = report.host,
                       .device = report.gpus[size_t(leg.gpu)].device};
      accuse(at, subject_name(at), Way::both, 1, 1,
             format("{}: what came back is not what was sent", memory(leg.node)), kBadPairs,
             ErrorCode::bad_data);
    }
  for (const auto& [gpu, text] : of_gpu) {
    const Subject at{
        .kind = SubjectKind::gpu, .host = report.host, .device = report.gpus[size_t(gpu)].device};
    if (!named_.contains(at.device))
      accuse(at, subject_name(at), Way::both, 1, 1, text, kBadHostMemory, ErrorCode::failed);
  }
}

// The pair that is farthest from what is usual.
void GpuJudge::worst_of(const GpuReport& report, PairFigure figure) {
  const GpuPair* worst = nullptr;
  GpuFigure seen;
  for (const GpuPair& pair : report.pairs) {
    if (pair.of(figure) <= 0) continue;
    const GpuFigure one = judge(report, pair, figure);
    if (worst != nullptr && one.ratio >= seen.ratio) continue;
    worst = &pair;
    seen = one;
  }
  if (worst == nullptr) return;
  const FigureWords& words = words_of(figure);
  Finding& finding = out_.findings.emplace_back();
  finding.name = format("gpus/{}", words.name);
  finding.at = {.kind = SubjectKind::link,
                .host = report.host,
                .device = report.gpus[size_t(worst->from)].device,
                .peer = report.host,
                .peer_device = report.gpus[size_t(worst->to)].device};
  finding.measured = format("{:.4g}", worst->of(figure));
  finding.unit = words.unit;
  const double usual = usual_.pair(report, *worst, figure);
  const Floor* const floor = floor_of(report, *worst, figure);
  if (floor != nullptr && floor->GBps >= usual * below_) {
    finding.expected = format("{:.4g}", floor->GBps);
    finding.basis = format("{}, {}", floor->source, floor->date);
  } else if (usual > 0 && below_ > 0) {
    finding.expected = format("{:.4g}", less_is_better(figure) ? usual / below_ : usual * below_);
    finding.basis = format("{:g} of what is usual of alike pairs", below_);
  }
  if (!report.busy.empty()) finding.reason = kBusyHost;
}

void GpuJudge::say_rest(const GpuReport& report) {
  for (size_t f = 0; f < kPairFigures; ++f) worst_of(report, PairFigure(f));
  const auto add = [&](const char* name) -> Finding& {
    return out_.findings.emplace_back(host_finding(name, report.host));
  };
  if (report.gpus.size() == 1)
    add("gpus/pairs").message = format("{}: one GPU, so there is no pair", report.host);
  std::vector<const GpuPair*> apart;
  for (const GpuPair& pair : report.pairs)
    if (!pair.why.empty()) apart.push_back(&pair);
  if (!apart.empty()) {
    Finding& finding = add("gpus/peer-access");
    finding.n = apart.size();
    finding.of = report.pairs.size();
    finding.warn(
        format("{}: {} of {} pairs go through host memory and were not measured as pairs: {}",
               report.host, apart.size(), report.pairs.size(), apart[0]->why),
        "nvidia-smi topo -p2p rw and collctl topo show what stands between them");
  }
  if (!report.no_kernels.empty() && report.pairs.size() > apart.size())
    add("gpus/kernels")
        .leave_out(format("{}: copies by kernels and latency were not measured: {}", report.host,
                          report.no_kernels));
  if (!report.no_nodes.empty())
    add("gpus/numa")
        .warn(format("{}: host memory was not told apart by NUMA node: {}", report.host,
                     report.no_nodes));
  if (pardoned_ > 0)
    spoil(add("gpus/busy"), format("{}: {} slow while the host was busy ({}), which says little",
                                   report.host, counted(pardoned_, "figure"), report.busy));
}

}  // namespace

GpusFindings judge_gpus(std::span<const GpuReport> reports, double below, const Floors& floors) {
  return GpuJudge(reports, below, floors).run();
}

}  // namespace collctl::cmd
