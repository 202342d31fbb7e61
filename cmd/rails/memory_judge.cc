#include "cmd/rails/memory_judge.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "cmd/judge/usual.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

using runtime::kHostMemory;
using runtime::MemoryFlow;
using runtime::MemoryTrial;
using runtime::MemoryUse;
using runtime::MemoryWay;
using runtime::RailFact;
using runtime::RailGpu;

namespace {

// An end of a direction.
struct MemoryPathEnd {
  int host = 0, gpu = kHostMemory, nic = 0;
  Way way = Way::out;
  auto operator<=>(const MemoryPathEnd&) const = default;
};

// What one direction has shown.
struct Looked {
  MemoryAt at;
  MemoryPathEnd out, in;
  std::string kind;
  double expected = 0, ratio = 1;
  bool counts = true;  // the same NICs work with host memory
  bool bad = false, last = true;
  std::vector<int> parts;
};

class MemoryJudge {
 public:
  MemoryJudge(const RailsReport& report, double below) : r_(report), below_(below) {
    for (const RailsHost& host : r_.hosts)
      parts_.add({.kind = SubjectKind::host, .host = host.host});
    look();
    hold();
  }
  MemoryFindings run();
  std::vector<int> in_doubt() const;

 private:
  void look();
  void hold();
  void judge(Looked& one, const std::map<std::string, double>& usual,
             const std::map<std::string, double>& usual_both) const;
  std::string kind_of(const Looked& one) const;
  std::string end_kind(const MemoryPathEnd& end, const MemoryUse& use) const;
  std::vector<int> parts_of(const Looked& one);
  void add_parts(const MemoryPathEnd& end, std::vector<int>& parts);
  void name_culprits();
  void name(const Blamed& one);
  void judge_ways();
  void tell_slower();
  void list_paths();
  void find_worst();
  void leave_out();
  Subject path_of(const Looked& one) const;
  std::string path_text(const Looked& one) const;
  std::string figures(const Looked& one) const;
  std::vector<RailFact> facts_of(const Host& host, const std::set<std::string>& devices) const;
  void accuse(Subject at, const std::string& name, const Blamed& one, const std::string& evidence,
              const std::vector<RailFact>& facts, const char* remedy, ErrorCode code);
  const RailsHost& host(int at) const { return r_.hosts[size_t(at)]; }
  const RailGpu& gpu(const MemoryPathEnd& end) const {
    return host(end.host).gpus.list[size_t(end.gpu)];
  }

  const RailsReport& r_;
  double below_;
  std::vector<Looked> all_;  // in turn
  std::map<std::string, double> usual_;
  std::map<std::pair<int, int>, std::set<int>> nics_of_, gpus_of_;  // of a GPU, of a NIC, by host
  Suspects parts_;
  std::vector<Trial> trials_;
  std::set<int> behind_;  // parts
  MemoryFindings v_;
};

double rate_of(const RailsReport& r, const Looked& one) {
  const auto rate = [&](const MemoryPathEnd& end) {
    return r.hosts[size_t(end.host)].nics[size_t(end.nic)].rate_Gbps;
  };
  return std::min(rate(one.out), rate(one.in));
}

bool is_rdma(const RailsReport& r, const MemoryPathEnd& end) {
  return r.hosts[size_t(end.host)].nics[size_t(end.nic)].rdma;
}

std::string MemoryJudge::end_kind(const MemoryPathEnd& end, const MemoryUse& use) const {
  if (end.gpu == kHostMemory) return "host memory";
  const RailGpu& one = gpu(end);
  const std::string& path = one.nics[size_t(end.nic)].path;
  return format("{} {}{}", one.model,
                use.way == MemoryWay::direct ? "by GPUDirect" : "through pinned host memory",
                path.empty() ? "" : " (" + path + ")");
}

std::string MemoryJudge::kind_of(const Looked& one) const {
  const MemoryFlow& flow = flow_of(r_, one.at);
  std::string text = format("{} to {}", end_kind(one.out, flow.out), end_kind(one.in, flow.in));
  if (const double rate = rate_of(r_, one); rate > 0) text += format(" at {:g} Gb/s", rate);
  return text;
}

void MemoryJudge::look() {
  std::map<std::pair<MemoryPathEnd, MemoryPathEnd>, size_t> last;
  for (size_t t = 0; t < r_.trials.size(); ++t) {
    const MemoryTrial& trial = r_.trials[t];
    for (const auto& [at, number, nic] : {std::tuple(trial.from, trial.from_gpu, trial.from_nic),
                                          std::tuple(trial.to, trial.to_gpu, trial.to_nic)})
      if (number != kHostMemory) {
        nics_of_[{at, number}].insert(nic);
        gpus_of_[{at, nic}].insert(number);
      }
    for (const bool back : {false, true}) {
      Looked& one = all_.emplace_back();
      one.at = {t, back};
      MemoryPathEnd a{trial.from, trial.from_gpu, trial.from_nic, Way::out};
      MemoryPathEnd b{trial.to, trial.to_gpu, trial.to_nic, Way::out};
      if (back) std::swap(a, b);
      b.way = Way::in;
      one.out = a;
      one.in = b;
      one.kind = kind_of(one);
      const MemoryFlow* beside = trial.of_hosts() ? nullptr : host_flow_of(r_, one.at);
      one.counts = beside == nullptr || beside->end == RailEnd::ok;
      // Host memory at the other end may be any host's.
      const auto part = [](const MemoryPathEnd& end, const MemoryPathEnd& other) {
        return end.gpu == kHostMemory && other.gpu != kHostMemory
                   ? MemoryPathEnd{-1, kHostMemory, 0, end.way}
                   : end;
      };
      const auto [known, fresh] = last.emplace(std::pair(part(a, b), part(b, a)), all_.size() - 1);
      if (fresh) continue;
      all_[known->second].last = false;
      known->second = all_.size() - 1;
    }
  }
}

// Host memory first, by which the rest is measured.
void MemoryJudge::hold() {
  Usual<std::string, std::tuple<int, int, int>> alone, both;
  for (const Looked& one : all_) {
    const MemoryFlow& flow = flow_of(r_, one.at);
    if (flow.end != RailEnd::ok || !one.counts) continue;
    const std::tuple a(one.out.host, one.out.gpu, one.out.nic);
    const std::tuple b(one.in.host, one.in.gpu, one.in.nic);
    alone.add(one.kind, a, b, flow.GBps);
    both.add(one.kind, a, b, flow.both_GBps);
  }
  usual_ = alone.values();
  const auto usual_both = both.values();
  for (Looked& one : all_) {
    judge(one, usual_, usual_both);
    if (!one.counts || r_.trials[one.at.trial].of_hosts()) continue;
    one.parts = parts_of(one);
    trials_.push_back({.parts = one.parts, .bad = one.bad, .ratio = one.ratio});
  }
}

void MemoryJudge::judge(Looked& one, const std::map<std::string, double>& usual,
                        const std::map<std::string, double>& usual_both) const {
  const MemoryFlow& flow = flow_of(r_, one.at);
  if (flow.end != RailEnd::ok) {
    one.ratio = 0;
    one.bad = true;
    return;
  }
  const double part = slow_below(host(one.out.host), host(one.in.host), below_);
  one.expected = usual.at(one.kind);
  double expected_both = usual_both.at(one.kind);
  // NICs that have less with host memory have it with the GPU's as well.
  if (const MemoryFlow* beside = host_flow_of(r_, one.at); beside != nullptr && beside->GBps > 0) {
    Looked hosts = one;
    hosts.out.gpu = hosts.in.gpu = kHostMemory;
    const auto at = usual.find(kind_of(hosts));
    const double less = at == usual.end() ? 1 : std::min(1.0, beside->GBps / at->second);
    one.expected *= less;
    expected_both *= less;
  }
  one.ratio = one.expected > 0 ? flow.GBps / one.expected : 1;
  // Over sockets both directions share the hosts' cores.
  if (is_rdma(r_, one.out) && expected_both > 0)
    one.ratio = std::min(one.ratio, flow.both_GBps / expected_both);
  one.bad = one.ratio < part;
}

// A GPU that was tried over one NIC, with which no other was, is one with it and with what lies
// between them; so is all of a host that was tried over one NIC, or with one GPU, one with that: no
// measurement tells them apart.
void MemoryJudge::add_parts(const MemoryPathEnd& end, std::vector<int>& parts) {
  if (end.gpu == kHostMemory) return;
  const Host& at = host(end.host).host;
  const RailGpu& one = gpu(end);
  const std::string& nic = host(end.host).nics[size_t(end.nic)].name;
  const auto add = [&](const Subject& part) {
    parts.push_back(parts_.add(part));
    parts.push_back(parts_.add(part, end.way));
  };
  const auto of_host = [&](const auto& all) {
    return std::ranges::count_if(all,
                                 [&](const auto& each) { return each.first.first == end.host; });
  };
  const bool more_gpus = of_host(nics_of_) > 1, more_nics = of_host(gpus_of_) > 1;
  if (more_gpus || more_nics) add({.kind = SubjectKind::host, .host = at});
  if (more_gpus && nics_of_.at({end.host, end.gpu}).size() > 1)
    add({.kind = SubjectKind::gpu, .host = at, .device = one.bus_id});
  if (more_nics && gpus_of_.at({end.host, end.nic}).size() > 1)
    add({.kind = SubjectKind::nic, .host = at, .device = nic});
  Subject link{.kind = SubjectKind::link,
               .host = at,
               .device = memory_name(host(end.host), end.gpu),
               .peer = at,
               .peer_device = nic};
  parts.push_back(parts_.add(link));
  if (end.way == Way::in) std::swap(link.device, link.peer_device);
  parts.push_back(parts_.add(link, Way::out));
}

std::vector<int> MemoryJudge::parts_of(const Looked& one) {
  std::vector<int> parts;
  add_parts(one.out, parts);
  add_parts(one.in, parts);
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

std::vector<int> MemoryJudge::in_doubt() const {
  std::set<int> hosts;
  for (const Looked& one : all_) {
    if (!one.bad || !one.last || !one.counts) continue;
    if (one.out.gpu != kHostMemory) hosts.insert(one.out.host);
    if (one.in.gpu != kHostMemory) hosts.insert(one.in.host);
  }
  return {hosts.begin(), hosts.end()};
}

// Of a GPU beside host memory its own host is the end, which is what is measured.
Subject MemoryJudge::path_of(const Looked& one) const {
  const auto nic = [&](const MemoryPathEnd& end) {
    return host(end.host).nics[size_t(end.nic)].name;
  };
  const auto memory = [&](const MemoryPathEnd& end) {
    return memory_name(host(end.host), end.gpu);
  };
  Subject at{.kind = SubjectKind::link,
             .host = host(one.out.host).host,
             .device = format("{} {}", memory(one.out), nic(one.out)),
             .peer = host(one.in.host).host,
             .peer_device = format("{} {}", nic(one.in), memory(one.in))};
  if ((one.out.gpu == kHostMemory) == (one.in.gpu == kHostMemory)) return at;
  const bool sends = one.out.gpu != kHostMemory;
  const MemoryPathEnd& end = sends ? one.out : one.in;
  at.host = at.peer = host(end.host).host;
  at.device = sends ? memory(end) : nic(end);
  at.peer_device = sends ? nic(end) : memory(end);
  return at;
}

// "GPU 3 -> mlx5_4" of a GPU's memory beside the other host's; else the whole way.
std::string MemoryJudge::path_text(const Looked& one) const {
  const auto nic = [&](const MemoryPathEnd& end) {
    return host(end.host).nics[size_t(end.nic)].name;
  };
  const auto memory = [&](const MemoryPathEnd& end) {
    return memory_name(host(end.host), end.gpu);
  };
  if (one.in.gpu == kHostMemory && one.out.gpu != kHostMemory)
    return format("{} {} -> {}", host(one.out.host).host, memory(one.out), nic(one.out));
  if (one.out.gpu == kHostMemory && one.in.gpu != kHostMemory)
    return format("{} {} -> {}", host(one.in.host).host, nic(one.in), memory(one.in));
  return format("{} {} {} -> {} {} {}", host(one.out.host).host, memory(one.out), nic(one.out),
                host(one.in.host).host, nic(one.in), memory(one.in));
}

// "11 of 48 GB/s, host memory 47, GPUDirect (DMA-BUF)"
std::string MemoryJudge::figures(const Looked& one) const {
  const MemoryFlow& flow = flow_of(r_, one.at);
  if (flow.end != RailEnd::ok) return flow.text;
  std::string text = format("{:.3g} of {:.3g} GB/s", flow.GBps, usual_.at(one.kind));
  if (const MemoryFlow* beside = host_flow_of(r_, one.at); beside != nullptr)
    text += format(", host memory {:.3g}", beside->GBps);
  if (flow.GBps >= below_ * one.expected)
    text += format(", {:.3g} while the other direction runs as well", flow.both_GBps);
  const MemoryPathEnd& end = one.out.gpu != kHostMemory ? one.out : one.in;
  return text + ", " + use_text(end.way == Way::out ? flow.out : flow.in);
}

std::vector<RailFact> MemoryJudge::facts_of(const Host& at,
                                            const std::set<std::string>& devices) const {
  std::vector<RailFact> list;
  for (const RailsHost& each : r_.hosts) {
    if (each.host != at) continue;
    for (const RailFact& fact : each.gpus.facts)
      if (fact.device.empty() || devices.contains(fact.device)) list.push_back(fact);
    break;
  }
  return list;
}

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
    "and "
    "nvidia_peermem (collctl doctor), and at the BIOS beside a good host's";

void MemoryJudge::accuse(Subject at, const std::string& name, const Blamed& one,
                         const std::string& evidence, const std::vector<RailFact>& facts,
                         const char* remedy, ErrorCode code) {
  std::string text = evidence, what_to_do;
  for (const RailFact& fact : facts) {
    text += format("; {}", fact.what);
    what_to_do += (what_to_do.empty() ? "" : "; ") + fact.remedy;
  }
  Finding& finding = v_.checks.emplace_back();
  finding.name = "blame";
  finding.at = std::move(at);
  finding.n = uint64_t(one.bad);
  finding.of = uint64_t(one.tried);
  finding.fail(code, format("{}: {}", name, text), what_to_do.empty() ? remedy : what_to_do);
  v_.culprits.push_back({finding.at.kind, name, one.tried == 0 ? 1 : double(one.bad) / one.tried,
                         text, false, finding.at.host});
}

void MemoryJudge::name(const Blamed& one) {
  std::vector<const Looked*> bad;
  bool wrong = false, still = false;
  for (const Looked& each : all_) {
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
    finding.message =
        format("{}: {} once, and good when measured again", path_text(shown), figures(shown));
    return;
  }
  const ErrorCode code = wrong ? ErrorCode::bad_data : ErrorCode::failed;
  // Directions of one part that cannot be told apart are that part.
  Suspect part = parts_[one.part];
  const bool one_part = std::ranges::all_of(
      one.alternatives, [&](int other) { return whole_of(parts_[other].at) == whole_of(part.at); });
  if (!one_part) {
    Finding& finding = v_.checks.emplace_back();
    finding.name = "blame";
    finding.fail(code,
                 format("one of these is at fault, the measurements cannot say which: {} ({}: {})",
                        names_of(one, parts_), path_text(shown), figures(shown)),
                 "collctl rails --memory gpu --all-nics measures each GPU over every NIC");
    behind_.insert(one.part);
    return;
  }
  if (!one.alternatives.empty()) part = {whole_of(part.at), Way::both};
  std::set<std::string> devices;
  for (const Looked* each : bad)
    for (const MemoryPathEnd& end : {each->out, each->in})
      if (end.gpu != kHostMemory && host(end.host).host == part.at.host)
        devices.insert({gpu(end).bus_id, host(end.host).nics[size_t(end.nic)].name});
  const std::vector<RailFact> facts = facts_of(part.at.host, devices);
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
    accuse(part.at, name, one, format("{} ({})", figures(shown), counts), facts, kBetween, code);
    return;
  }
  const char* const remedy = part.at.kind == SubjectKind::host  ? kHostMemoryBad
                             : part.at.kind == SubjectKind::gpu ? kBadGpuMemory
                                                                : kBadNicMemory;
  accuse(part.at, part.name(), one,
         format("GPU memory over the network: {}{} ({}: {})", way, counts, path_text(shown),
                figures(shown)),
         facts, remedy, code);
  if (part.way != Way::both) v_.checks.back().reason = part.way == Way::out ? "sends" : "receives";
}

void MemoryJudge::name_culprits() {
  const Blame found = blame(parts_.all(), trials_);
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
  for (const Looked& one : all_) {
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
    std::string remedy;
    for (const RailFact& fact : facts_of(host(at).host, {}))
      remedy += (remedy.empty() ? "" : "; ") + fact.remedy;
    if (remedy.empty())
      remedy = "modprobe nvidia_peermem, or a driver and kernel with DMA-BUF: collctl doctor";
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
  for (const Looked& one : all_) {
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
      devices[host(end.host).host].insert(
          {gpu(end).bus_id, host(end.host).nics[size_t(end.nic)].name});
    }
    const std::string text =
        format("GPU memory is slower than host memory over the same NICs ({}: {})",
               path_text(*list.front()), figures(*list.front()));
    bool explained = false;
    for (const auto& [at, of_host] : devices) {
      const std::vector<RailFact> facts = facts_of(at, of_host);
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
    finding.message = format("{}; all {} are alike ({}), so nobody is named", text,
                             counted(list.size(), "path"), kind);
    finding.remedy =
        "a good machine of the kind tells whether that is all it can do; collctl doctor says how "
        "ACS and IOMMU are set";
  }
}

void MemoryJudge::list_paths() {
  for (const Looked& one : all_) {
    const bool of_hosts = r_.trials[one.at.trial].of_hosts();
    const MemoryFlow& flow = flow_of(r_, one.at);
    if (!one.last || (of_hosts && flow.end == RailEnd::ok)) continue;
    Finding& finding = v_.checks.emplace_back();
    finding.name = of_hosts ? "host-path" : "gpu-path";
    finding.at = path_of(one);
    finding.unit = "GB/s";
    if (!one.counts) {
      finding.leave_out(format("{}: the same NICs fail with host memory: {}", path_text(one),
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
                               path_text(one), points, r_.sizes.size()));
    if (!one.bad) {
      ++v_.good;
      continue;
    }
    if (!of_hosts &&
        std::ranges::none_of(one.parts, [&](int part) { return behind_.contains(part); }))
      v_.unexplained.push_back(v_.checks.size() - 1);
    finding.reason = flow.end == RailEnd::ok ? "slow" : rail_word(flow.end);
    finding.fail(flow.end == RailEnd::bad_data ? ErrorCode::bad_data : ErrorCode::failed,
                 format("{}: {}", path_text(one), figures(one)), of_hosts ? kBadWire : kBetween);
  }
}

void MemoryJudge::find_worst() {
  std::map<std::pair<int, Way>, const Looked*> worst;
  for (const Looked& one : all_) {
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
    finding.at = path_of(*one);
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
    const bool measured = std::ranges::any_of(all_, [&](const Looked& one) {
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

const MemoryFlow& flow_of(const RailsReport& report, const MemoryAt& at) {
  const MemoryTrial& trial = report.trials[at.trial];
  return at.back ? trial.back : trial.there;
}

const MemoryFlow* host_flow_of(const RailsReport& report, const MemoryAt& at) {
  const MemoryTrial& trial = report.trials[at.trial];
  if (trial.of_hosts()) return nullptr;
  for (size_t t = at.trial; t-- > 0;) {
    const MemoryTrial& each = report.trials[t];
    if (each.of_hosts() && each.from == trial.from && each.to == trial.to &&
        each.from_nic == trial.from_nic && each.to_nic == trial.to_nic)
      return at.back ? &each.back : &each.there;
  }
  return nullptr;
}

std::string memory_name(const RailsHost& host, int gpu) {
  return gpu == kHostMemory ? "host memory" : format("GPU {}", host.gpus.list[size_t(gpu)].ordinal);
}

std::string use_text(const MemoryUse& use) {
  switch (use.way) {
    case MemoryWay::host:
      return "host memory";
    case MemoryWay::direct:
      return format("GPUDirect ({})", use.how);
    default:
      return "through pinned host memory: " + use.how;
  }
}

MemoryFindings judge_memories(const RailsReport& report, double below) {
  return MemoryJudge(report, below).run();
}

std::vector<int> gpus_in_doubt(const RailsReport& report, double below) {
  return MemoryJudge(report, below).in_doubt();
}

}  // namespace collctl::cmd
