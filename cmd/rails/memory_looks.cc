#include "cmd/rails/memory_looks.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/judge/usual.h"

namespace collctl::cmd {

using runtime::kHostMemory;
using runtime::MemoryFlow;
using runtime::MemoryTrial;
using runtime::MemoryUse;
using runtime::MemoryWay;
using runtime::RailFact;
using runtime::RailGpu;

namespace {

double rate_of(const RailsReport& r, const Looked& one) {
  const auto rate = [&](const MemoryPathEnd& end) {
    return r.hosts[size_t(end.host)].nics[size_t(end.nic)].rate_Gbps;
  };
  return std::min(rate(one.out), rate(one.in));
}

bool is_rdma(const RailsReport& r, const MemoryPathEnd& end) {
  return r.hosts[size_t(end.host)].nics[size_t(end.nic)].rdma;
}

}  // namespace

MemoryLooks::MemoryLooks(const RailsReport& report, double below) : r_(report), below_(below) {
  for (const RailsHost& each : r_.hosts) parts_.add({.kind = SubjectKind::host, .host = each.host});
  look();
  hold();
}

std::string MemoryLooks::end_kind(const MemoryPathEnd& end, const MemoryUse& use) const {
  if (end.gpu == kHostMemory) return "host memory";
  const RailGpu& one = gpu(end);
  const std::string& path = one.nics[size_t(end.nic)].path;
  return format("{} {}{}", one.model,
                use.way == MemoryWay::direct ? "by GPUDirect" : "through pinned host memory",
                path.empty() ? "" : " (" + path + ")");
}

std::string MemoryLooks::kind_of(const Looked& one) const {
  const MemoryFlow& flow = flow_of(r_, one.at);
  std::string text = format("{} to {}", end_kind(one.out, flow.out), end_kind(one.in, flow.in));
  if (const double rate = rate_of(r_, one); rate > 0) text += format(" at {:g} Gb/s", rate);
  return text;
}

void MemoryLooks::look() {
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
void MemoryLooks::hold() {
  for (const auto& [gpu, nics] : nics_of_) ++gpus_tried_[gpu.first];
  for (const auto& [nic, gpus] : gpus_of_) ++nics_tried_[nic.first];
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

void MemoryLooks::judge(Looked& one, const std::map<std::string, double>& usual,
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
void MemoryLooks::add_parts(const MemoryPathEnd& end, std::vector<int>& parts) {
  if (end.gpu == kHostMemory) return;
  const Host& at = host(end.host).host;
  const RailGpu& one = gpu(end);
  const std::string& nic = nic_name(end);
  const auto add = [&](const Subject& part) {
    parts.push_back(parts_.add(part));
    parts.push_back(parts_.add(part, end.way));
  };
  const bool more_gpus = gpus_tried_.at(end.host) > 1, more_nics = nics_tried_.at(end.host) > 1;
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

std::vector<int> MemoryLooks::parts_of(const Looked& one) {
  std::vector<int> parts;
  add_parts(one.out, parts);
  add_parts(one.in, parts);
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

std::vector<int> MemoryLooks::in_doubt() const {
  std::set<int> hosts;
  for (const Looked& one : all_) {
    if (!one.bad || !one.last || !one.counts) continue;
    if (one.out.gpu != kHostMemory) hosts.insert(one.out.host);
    if (one.in.gpu != kHostMemory) hosts.insert(one.in.host);
  }
  return {hosts.begin(), hosts.end()};
}

// A GPU beside host memory: its own host is the other end, as that is measured.
Subject MemoryLooks::path_of(const Looked& one) const {
  Subject at{.kind = SubjectKind::link,
             .host = host(one.out.host).host,
             .device = format("{} {}", memory_of(one.out), nic_name(one.out)),
             .peer = host(one.in.host).host,
             .peer_device = format("{} {}", nic_name(one.in), memory_of(one.in))};
  if ((one.out.gpu == kHostMemory) == (one.in.gpu == kHostMemory)) return at;
  const bool sends = one.out.gpu != kHostMemory;
  const MemoryPathEnd& end = sends ? one.out : one.in;
  at.host = at.peer = host(end.host).host;
  at.device = sends ? memory_of(end) : nic_name(end);
  at.peer_device = sends ? nic_name(end) : memory_of(end);
  return at;
}

// "GPU 3 -> mlx5_4" of a GPU's memory beside the other host's; else the whole way.
std::string MemoryLooks::path_text(const Looked& one) const {
  if (one.in.gpu == kHostMemory && one.out.gpu != kHostMemory)
    return format("{} {} -> {}", host(one.out.host).host, memory_of(one.out), nic_name(one.out));
  if (one.out.gpu == kHostMemory && one.in.gpu != kHostMemory)
    return format("{} {} -> {}", host(one.in.host).host, nic_name(one.in), memory_of(one.in));
  return format("{} {} {} -> {} {} {}", host(one.out.host).host, memory_of(one.out),
                nic_name(one.out), host(one.in.host).host, nic_name(one.in), memory_of(one.in));
}

// "11 of 48 GB/s, host memory 47, GPUDirect (DMA-BUF)"
std::string MemoryLooks::figures(const Looked& one) const {
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

std::vector<RailFact> MemoryLooks::facts_of(const Host& at,
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

}  // namespace collctl::cmd
