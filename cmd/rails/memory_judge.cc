#include "cmd/rails/memory_judge.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "cmd/rails/memory_looks.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

using runtime::kHostMemory;
using runtime::MemoryFlow;
using runtime::MemoryUse;
using runtime::MemoryWay;
using runtime::RailFact;

namespace {

class MemoryJudge {
 public:
  MemoryJudge(const RailsReport& report, double below)
      : r_(report), below_(below), seen_(report, below) {}
  MemoryFindings run();

 private:
  void name_culprits();
  void name(const Blamed& one);
  void judge_ways();
  void tell_slower();
  void list_paths();
  void find_worst();
  void leave_out();
  void accuse(Subject at, const std::string& name, const Blamed& one, const std::string& evidence,
              const std::vector<RailFact>& facts, const char* remedy, ErrorCode code);
  const RailsHost& host(int at) const { return r_.hosts[size_t(at)]; }

  const RailsReport& r_;
  double below_;
  const MemoryLooks seen_;
  std::set<int> behind_;  // parts
  MemoryFindings v_;
};

constexpr const char* kBetween =
    "look at what is between the two: slots, switch and risers (collctl topo), lane errors "
    "(lspci -vv), ACS and IOMMU (collctl doctor); nvidia-smi topo -m has the NICs near a GPU";
constexpr const char* kBadWire =
    "nothing of GPUs is in it: collctl rails --memory host says which host, NIC or link it is";
constexpr const char* kBadGpuMemory =
    "its memory is slow over several NICs: look at its slot and link (collctl topo, nvidia-smi -q "
    "-d PCI), and at BAR1 (nvidia-smi -q -d MEMORY)";
constexpr const char* kBadNicMemory =
    "it is slow with several GPUs, and not with host memory: look at the switch that it shares "
    "with them, at ACS and IOMMU (collctl topo, collctl doctor), and at its PCI settings (relaxed "
    "ordering, max read request)";
constexpr const char* kHostMemoryBad =
    "all its GPUs are slow over the network, and host memory is not: look at ACS, IOMMU, driver "
    "and nvidia_peermem (collctl doctor), and at the BIOS beside a good host's";

// `without`: where there is no fact.
std::string remedies_of(const std::vector<RailFact>& facts, const char* without) {
  std::string text;
  for (const RailFact& fact : facts) text += (text.empty() ? "" : "; ") + fact.remedy;
  return text.empty() ? without : text;
}

void MemoryJudge::accuse(Subject at, const std::string& name, const Blamed& one,
                         const std::string& evidence, const std::vector<RailFact>& facts,
                         const char* remedy, ErrorCode code) {
  std::string text = evidence;
  for (const RailFact& fact : facts) text += format("; {}", fact.what);
  Finding& finding = v_.checks.emplace_back();
  finding.name = "blame";
  finding.at = std::move(at);
  finding.n = uint64_t(one.bad);
  finding.of = uint64_t(one.tried);
  finding.fail(code, format("{}: {}", name, text), remedies_of(facts, remedy));
  v_.culprits.push_back({finding.at.kind, name, one.tried == 0 ? 1 : double(one.bad) / one.tried,
                         text, false, finding.at.host});
}

void MemoryJudge::name(const Blamed& one) {
  std::vector<const Looked*> bad;
  bool wrong = false, still = false;
  for (const Looked& each : seen_.all()) {
    if (!each.bad || std::ranges::count(each.parts, one.part) == 0) continue;
    bad.push_back(&each);
    wrong |= flow_of(r_, each.at).end == RailEnd::bad_data;
    still |= each.last;
  }
  if (bad.empty()) return;
  // That of one GPU says the most.
  const auto says_most = [](const Looked* each) {
    return each->out.gpu == kHostMemory || each->in.gpu == kHostMemory;
  };
  const auto best = std::find_if(bad.rbegin(), bad.rend(), says_most);
  const Looked& shown = best != bad.rend() ? **best : *bad.back();
  if (!still && !wrong) {
    Finding& finding = v_.checks.emplace_back();
    finding.name = "again";
    finding.status = FindingStatus::warn;
    finding.message = format("{}: {} once, and good when measured again", seen_.path_text(shown),
                             seen_.figures(shown));
    return;
  }
  const ErrorCode code = wrong ? ErrorCode::bad_data : ErrorCode::failed;
  // Directions of one part that cannot be told apart are that part.
  Suspect part = seen_.parts()[one.part];
  const bool one_part = std::ranges::all_of(one.alternatives, [&](int other) {
    return whole_of(seen_.parts()[other].at) == whole_of(part.at);
  });
  if (!one_part) {
    Finding& finding = v_.checks.emplace_back();
    finding.name = "blame";
    finding.fail(code,
                 format("one of these is at fault, the measurements cannot say which: {} ({}: {})",
                        names_of(one, seen_.parts()), seen_.path_text(shown), seen_.figures(shown)),
                 "collctl rails --memory gpu --all-nics measures each GPU over every NIC");
    behind_.insert(one.part);
    return;
  }
  if (!one.alternatives.empty()) part = {whole_of(part.at), Way::both};
  std::set<std::string> devices;
  for (const Looked* each : bad)
    for (const MemoryPathEnd& end : {each->out, each->in})
      if (end.gpu != kHostMemory && host(end.host).host == part.at.host)
        devices.insert({seen_.gpu(end).bus_id, seen_.nic_name(end)});
  const std::vector<RailFact> facts = seen_.facts_of(part.at.host, devices);
  behind_.insert(one.part);
  const std::string counts = format("{} of {} measurements are bad{}", one.bad, one.tried,
                                    one.intermittent ? ", the others good: it comes and goes" : "");
  const std::string way = part.way == Way::both  ? ""
                          : part.way == Way::out ? "what it sends: "
                                                 : "what it receives: ";
  if (part.at.kind == SubjectKind::link) {
    const std::string name =
        part.way == Way::both
            ? format("{} {} - {}", part.at.host, part.at.device, part.at.peer_device)
            : format("{} {} -> {}", part.at.host, part.at.device, part.at.peer_device);
    accuse(part.at, name, one, format("{} ({})", seen_.figures(shown), counts), facts, kBetween,
           code);
    return;
  }
  const char* const remedy = part.at.kind == SubjectKind::host  ? kHostMemoryBad
                             : part.at.kind == SubjectKind::gpu ? kBadGpuMemory
                                                                : kBadNicMemory;
  accuse(part.at, part.name(), one,
         format("GPU memory over the network: {}{} ({}: {})", way, counts, seen_.path_text(shown),
                seen_.figures(shown)),
         facts, remedy, code);
  if (part.way != Way::both) v_.checks.back().reason = part.way == Way::out ? "sends" : "receives";
}

void MemoryJudge::name_culprits() {
  const Blame found = blame(seen_.parts().all(), seen_.trials());
  for (const Blamed& one : found.culprits)
    if (one.log_odds >= 3) name(one);  // sure enough, as Blamed::named()
}

// Where RDMA refuses GPU memory: on one host it is at fault, on all of them it is told.
void MemoryJudge::judge_ways() {
  std::map<int, std::vector<const Looked*>> refused;
  size_t direct = 0;
  const auto use_of = [&](const Looked& one, const MemoryPathEnd& end) -> const MemoryUse& {
    const MemoryFlow& flow = flow_of(r_, one.at);
    return end.way == Way::out ? flow.out : flow.in;
  };
  for (const Looked& one : seen_.all()) {
    if (!one.last) continue;
    for (const MemoryPathEnd& end : {one.out, one.in}) {
      direct += use_of(one, end).way == MemoryWay::direct;
      if (use_of(one, end).way == MemoryWay::refused) refused[end.host].push_back(&one);
    }
  }
  for (const auto& [at, list] : refused) {
    const Looked& first = *list.front();
    const MemoryPathEnd& end =
        first.out.host == at && use_of(first, first.out).way == MemoryWay::refused ? first.out
                                                                                   : first.in;
    Finding& finding = v_.checks.emplace_back();
    finding.name = "gpudirect";
    finding.at = {.kind = SubjectKind::host, .host = host(at).host};
    const std::string text =
        format("{} of its GPU memory through pinned host memory, as GPUDirect is refused: {}",
               counted(list.size(), "path"), use_of(first, end).how);
    const std::string remedy =
        remedies_of(seen_.facts_of(host(at).host, {}),
                    "modprobe nvidia_peermem, or a driver and kernel with DMA-BUF: collctl doctor");
    if (direct == 0) {
      finding.status = FindingStatus::warn;
      finding.message = format("{}: {}; no host here has it", host(at).host, text);
      finding.remedy = remedy;
      continue;
    }
    finding.fail(ErrorCode::failed, format("{}: {}; others have it", host(at).host, text), remedy);
    v_.culprits.push_back({SubjectKind::host, host(at).host.name, 1, text, false, host(at).host});
  }
}

// GPUDirect that is slower than host memory with all GPUs of a kind alike.
void MemoryJudge::tell_slower() {
  std::map<std::string, std::vector<const Looked*>> kinds;
  for (const Looked& one : seen_.all()) {
    const MemoryFlow& flow = flow_of(r_, one.at);
    const bool direct = flow.out.way == MemoryWay::direct || flow.in.way == MemoryWay::direct;
    const bool one_gpu = (one.out.gpu == kHostMemory) != (one.in.gpu == kHostMemory);
    const MemoryFlow* beside = host_flow_of(r_, one.at);
    if (one.last && !one.bad && one.counts && direct && one_gpu && beside != nullptr &&
        flow.GBps < below_ * beside->GBps)
      kinds[one.kind].push_back(&one);
  }
  for (const auto& [kind, list] : kinds) {
    std::map<Host, std::set<std::string>> devices;
    for (const Looked* one : list) {
      const MemoryPathEnd& end = one->out.gpu != kHostMemory ? one->out : one->in;
      devices[host(end.host).host].insert({seen_.gpu(end).bus_id, seen_.nic_name(end)});
    }
    const std::string text =
        format("GPU memory is slower than host memory over the same NICs ({}: {})",
               seen_.path_text(*list.front()), seen_.figures(*list.front()));
    bool explained = false;
    for (const auto& [at, of_host] : devices) {
      const std::vector<RailFact> facts = seen_.facts_of(at, of_host);
      if (facts.empty()) continue;
      explained = true;
      Blamed counts;
      counts.bad = counts.tried = int(of_host.size() / 2);
      accuse({.kind = SubjectKind::host, .host = at}, at.name, counts, text, facts, "",
             ErrorCode::failed);
    }
    if (explained) continue;
    Finding& finding = v_.checks.emplace_back();
    finding.name = "slower";
    finding.status = FindingStatus::warn;
    finding.message =
        format("{}; the paths of one kind ({}) are alike, so nobody is named", text, kind);
    finding.remedy =
        "a good machine of the kind tells whether that is all it can do; collctl doctor says how "
        "ACS and IOMMU are set";
  }
}

void MemoryJudge::list_paths() {
  for (const Looked& one : seen_.all()) {
    const bool of_hosts = r_.trials[one.at.trial].of_hosts();
    const MemoryFlow& flow = flow_of(r_, one.at);
    if (!one.last || (of_hosts && flow.end == RailEnd::ok)) continue;
    Finding& finding = v_.checks.emplace_back();
    finding.name = of_hosts ? "host-path" : "gpu-path";
    finding.at = seen_.path_of(one);
    finding.unit = "GB/s";
    if (!one.counts) {
      finding.leave_out(format("{}: the same NICs fail with host memory: {}", seen_.path_text(one),
                               host_flow_of(r_, one.at)->text));
      continue;
    }
    ++v_.tried;
    if (flow.end == RailEnd::ok) {
      finding.measured = format("{:.6g}", flow.GBps);
      if (below_ > 0) {
        finding.expected = format("{:.6g}", below_ * one.expected);
        finding.basis = format("{:g} of what is usual of {}", below_, one.kind);
      }
    }
    const size_t points = r_.trials[one.at.trial].curve.size();
    if (!one.bad && points < r_.sizes.size())
      finding.leave_out(format("{}: {} of {} sizes were measured, it is too slow for the others",
                               seen_.path_text(one), points, r_.sizes.size()));
    if (!one.bad) {
      ++v_.good;
      continue;
    }
    if (!of_hosts &&
        std::ranges::none_of(one.parts, [&](int part) { return behind_.contains(part); }))
      v_.unexplained.push_back(v_.checks.size() - 1);
    finding.reason = flow.end == RailEnd::ok ? "slow" : rail_word(flow.end);
    finding.fail(flow.end == RailEnd::bad_data ? ErrorCode::bad_data : ErrorCode::failed,
                 format("{}: {}", seen_.path_text(one), seen_.figures(one)),
                 of_hosts ? kBadWire : kBetween);
  }
}

void MemoryJudge::find_worst() {
  std::map<std::pair<int, Way>, const Looked*> worst;
  for (const Looked& one : seen_.all()) {
    const bool sends = one.out.gpu != kHostMemory;
    if (!one.last || !one.counts || sends == (one.in.gpu != kHostMemory)) continue;
    if (flow_of(r_, one.at).end != RailEnd::ok) continue;
    const Looked*& seen = worst[{sends ? one.out.host : one.in.host, sends ? Way::out : Way::in}];
    if (seen == nullptr || one.ratio < seen->ratio) seen = &one;
  }
  for (const auto& [key, one] : worst) {
    const bool sends = key.second == Way::out;
    Finding& finding = v_.worst.emplace_back();
    finding.name = sends ? "sends" : "receives";
    finding.at = seen_.path_of(*one);
    finding.measured = format("{:.4g}", flow_of(r_, one->at).GBps);
    finding.unit = "GB/s";
    if (below_ > 0) {
      finding.expected = format("{:.4g}", below_ * one->expected);
      finding.basis = format("{:g} of what is usual of alike paths", below_);
    }
  }
}

void MemoryJudge::leave_out() {
  const bool asked = r_.memory != runtime::MemoryChoice::automatic;
  for (size_t h = 0; h < r_.hosts.size(); ++h) {
    if (r_.one_host && h > 0) break;
    const RailsHost& each = r_.hosts[h];
    const bool measured = std::ranges::any_of(seen_.all(), [&](const Looked& one) {
      return (one.out.host == int(h) && one.out.gpu != kHostMemory) ||
             (one.in.host == int(h) && one.in.gpu != kHostMemory);
    });
    if (measured || (each.gpus.list.empty() && each.gpus.why_none.empty() && !asked)) continue;
    Finding& finding = v_.checks.emplace_back();
    finding.name = "gpu-path";
    finding.at = {.kind = SubjectKind::host, .host = each.host};
    finding.leave_out(format("{}: GPU memory was not measured: {}", each.host,
                             !each.gpus.list.empty()
                                 ? "none of its NICs goes with one of another host"
                             : !each.gpus.why_none.empty() ? each.gpus.why_none
                                                           : "it has no NVIDIA GPU"));
  }
}

MemoryFindings MemoryJudge::run() {
  if (r_.memory == runtime::MemoryChoice::host) return {};
  name_culprits();
  judge_ways();
  tell_slower();
  list_paths();
  find_worst();
  leave_out();
  if (v_.good < v_.tried)
    v_.summary.push_back(format("{} of {} paths of memory are bad", v_.tried - v_.good, v_.tried));
  for (const Finding& finding : v_.checks)
    if (finding.name == "gpudirect" && finding.status == FindingStatus::fail)
      v_.summary.push_back(format("{} has no GPUDirect, others have", finding.at.host));
  return std::move(v_);
}

}  // namespace

MemoryFindings judge_memories(const RailsReport& report, double below) {
  return MemoryJudge(report, below).run();
}

std::vector<int> gpus_in_doubt(const RailsReport& report, double below) {
  return MemoryLooks(report, below).in_doubt();
}

}  // namespace collctl::cmd
