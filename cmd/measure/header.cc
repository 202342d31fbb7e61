#include "cmd/measure/fields.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/number_ranges.h"
#include "base/processors.h"
#include "base/wait_policy.h"
#include "runtime/plan/job_hosts.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostWord = 256, kMostWhy = 1024;
constexpr uint32_t kMostCores = 1 << 16;

std::string counted_cores(int cores) {
  return format("{} core{}", cores, cores == 1 ? "" : "s");
}

// Facts that one rank tells: its cores, its links, and its GPU.
struct LinkSaid {
  int channel = 0, from = 0, to = 0, relay = -1;
  std::string via, nic, why;
};
void fields(Record& io, LinkSaid& link) {
  for (int* const number : {&link.channel, &link.from, &link.to, &link.relay})
    io.field("number", *number);
  io.field("via", link.via, kMostWord);
  io.field("nic", link.nic, kMostWord);
  io.field("why", link.why, kMostWhy);
}
struct RankSays {
  static constexpr const char* kRecord = "facts of a rank";
  int usable_cores = 0;
  std::vector<int> cores;
  double wakeup_us = 0;
  std::string machine, own_name;
  double init_seconds = 0;
  int team = 0;  // the lowest rank of those that map each other's windows
  std::vector<LinkSaid> links;
  GpuLine gpu;
};
void fields(Record& io, RankSays& said) {
  io.field("usable_cores", said.usable_cores);
  io.field("cores", said.cores, kMostCores);
  io.field("wakeup_us", said.wakeup_us);
  io.field("machine", said.machine, kMostWord);
  io.field("own_name", said.own_name, kMostWord);
  io.field("init_s", said.init_seconds);
  io.field("team", said.team);
  io.field("links", said.links);
  io.field("gpu", said.gpu.name, kMostWord);
  io.field("busid", said.gpu.bus_id, kMostWord);
  io.field("held_bytes", said.gpu.held_bytes);
  io.field("note", said.gpu.note, kMostWord);
}

RankSays mine(const runtime::Communicator& whole, const HeaderFacts& facts) {
  const runtime::Communicator& communicator = facts.group != nullptr ? *facts.group : whole;
  const auto number = [&](int rank) {
    return facts.group != nullptr ? facts.group->members()[size_t(rank)] : rank;
  };
  const base::Processors& processors = base::host_processors();
  RankSays said;
  said.usable_cores = base::usable_cores();
  said.cores = base::affinity_cores();
  said.wakeup_us = double(base::known_wakeup_ns()) * 1e-3;
  said.machine = format("{}{}{}", processors.model.name.substr(0, kMostWord / 2),
                        processors.model.name.empty() ? "" : ", ", counted_cores(processors.cores));
  said.own_name = base::own_host_name().substr(0, kMostWord);
  said.init_seconds = communicator.init_times().total;
  if (facts.group != nullptr) said.init_seconds += whole.init_times().total;
  said.team = number(communicator.windows().team().front());
  for (const auto& link : communicator.links())
    said.links.push_back({link.channel, number(link.from), number(link.to),
                          link.relay < 0 ? -1 : number(link.relay), link.via, link.nic,
                          link.why.substr(0, kMostWhy)});
  if (const auto device = communicator.device()) {
    const transport::DeviceFacts& gpu = device->facts();
    said.gpu = {gpu.name, gpu.bus_id, communicator.device_bytes(),
                facts.clocks.substr(0, kMostWord)};
  }
  return said;
}

using Links = std::map<std::tuple<int, int, int>, LinkLine>;  // both ends tell of a link

// The cores of a host that its ranks may use: each may be bound to some of them.
struct HostCores {
  std::set<int> allowed;
  int quota = INT_MAX;  // of a cgroup that gives less than the affinity allows
  std::vector<std::vector<int>> of_rank;

  void add(const RankSays& said) {
    of_rank.push_back(said.cores);
    allowed.insert(said.cores.begin(), said.cores.end());
    if (said.usable_cores < int(said.cores.size())) quota = std::min(quota, said.usable_cores);
  }
  void describe(HostLine& line) const {
    for (const auto& mine : of_rank) {
      line.cores.push_back(base::number_ranges(mine, ","));
      line.bound |= mine.size() < allowed.size();
    }
  }
  int count() const { return std::max(1, std::min(int(allowed.size()), quota)); }
};

void add_link(int rank, const LinkSaid& said, Links& links) {
  LinkLine line{said.channel, said.from, said.to, said.via};
  line.why = said.why;
  line.relay = said.relay;
  // The network is what its two ends say, the relay and the target.
  if (line.relay >= 0 && rank != line.from) line.via += "/PXN";
  LinkLine& known = links.try_emplace({line.channel, line.from, line.to}, line).first->second;
  if (line.relay >= 0 && rank != line.from) known.via = line.via;
  (rank == line.to ? known.to_nic : known.from_nic) = said.nic;
  // The two ends may have their own reasons.
  if (known.why != line.why && !line.why.empty())
    known.why += (known.why.empty() ? "" : "; the other end: ") + line.why;
}

// Oddity of a host's GPUs, or "4 ranks share 2 cores" of the first host that is crowded.
std::string note_of(const BenchHeader& header, const std::vector<HostCores>& cores) {
  for (const HostLine& host : header.hosts)
    for (size_t i = 0; i < host.gpus.size(); ++i)
      if (!host.gpus[i].note.empty())
        return format("GPU {} ({}) of {}: {}", host.devices[i], host.gpus[i].bus_id, host.host,
                      host.gpus[i].note);
  if (header.device != "cpu") return "";
  for (size_t h = 0; h < header.hosts.size(); ++h) {
    const size_t ranks = header.hosts[h].ranks.size();
    const int there = cores[h].count();
    if (ranks <= size_t(there)) continue;
    return format("{} ranks share {} core{}{}; times include the turns they take", ranks, there,
                  there == 1 ? "" : "s",
                  header.hosts.size() == 1 ? "" : " of " + header.hosts[h].host.name);
  }
  return "";
}

}  // namespace

Result<BenchHeader> gather_header(const RankSettings& settings, const HeaderFacts& facts,
                                  runtime::Communicator& communicator, Deadline deadline) {
  COLL_ASSIGN(const std::vector<Bytes> all,
              communicator.gather_blobs(encoded(mine(communicator, facts)), deadline));
  BenchHeader header;
  if (communicator.rank() != 0) return header;
  const bool on_gpus = communicator.device() != nullptr;
  const auto& peers = communicator.peers();
  header.version = peers[0].version;
  header.device = on_gpus ? "cuda" : "cpu";
  header.device_reason = settings.device_reason;
  header.ranks = communicator.size();
  header.versus = facts.versus;
  if (const runtime::TunerPlugin& tuner = communicator.tuner(); tuner.calls != nullptr)
    header.tuner = {tuner.name, tuner.library, tuner.calls->version()};
  Links links;
  std::vector<HostCores> cores;
  std::map<uint64_t, size_t> lines;
  std::map<int, std::vector<int>> teams;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const transport::PeerInfo& peer = peers[rank];
    const auto [at, fresh] = lines.emplace(peer.host_hash, header.hosts.size());
    if (fresh) {
      header.hosts.emplace_back().host = runtime::host_of(peer);
      cores.emplace_back();
    }
    COLL_ASSIGN(RankSays said, decoded<RankSays>(all[rank]));
    cores[at->second].add(said);
    for (const LinkSaid& link : said.links) add_link(int(rank), link, links);
    header.init_seconds = std::max(header.init_seconds, said.init_seconds);
    HostLine& line = header.hosts[at->second];
    if (const Host host = runtime::host_of(peer); line.host != host && header.note.empty())
      header.note = format("{} and {} are one host: name each host once in the list of hosts",
                           line.host, host);
    line.ranks.push_back(peer.rank);
    teams[said.team].push_back(peer.rank);
    line.devices.push_back(peer.device);
    line.pids.push_back(peer.pid);
    if (line.machine.empty()) line.machine = std::move(said.machine);
    const bool other = said.own_name != line.host.name;  // as typed
    if (other) line.own_name = std::move(said.own_name);
    line.wakeup_us = std::max(line.wakeup_us, said.wakeup_us);
    if (on_gpus) line.gpus.push_back(std::move(said.gpu));
  }
  for (size_t h = 0; h < cores.size() && !on_gpus; ++h) cores[h].describe(header.hosts[h]);
  for (auto& [key, line] : links) header.links.push_back(std::move(line));
  if (facts.windows) {
    WindowsLine& windows = header.windows.emplace();
    windows.bytes = facts.window_bytes;
    windows.note =
        (facts.group != nullptr ? *facts.group : communicator).no_direct_path();  // rank 0's
    for (auto& [lowest, ranks] : teams) windows.teams.push_back(std::move(ranks));
  }
  if (facts.groups != nullptr)
    for (const std::vector<int>& members : *facts.groups) {
      GroupLine& line = header.groups.emplace_back(GroupLine{members, {}});
      for (const HostLine& host : header.hosts)
        if (std::ranges::any_of(members, [&](int rank) {
              return std::ranges::find(host.ranks, rank) != host.ranks.end();
            }))
          line.hosts.push_back(host.host.name);
    }
  if (header.note.empty()) header.note = note_of(header, cores);
  return header;
}

Status send_header(const BenchSpec& spec, HeaderFacts facts, runtime::Communicator& communicator,
                   BenchOut& out, Deadline deadline) {
  facts.windows = spec.window;
  COLL_ASSIGN(BenchHeader header, gather_header(spec, facts, communicator, deadline));
  if (communicator.rank() != 0) return {};
  header.collective = spec.collective;
  header.cuda_graph = spec.cuda_graph;
  header.grouped = spec.grouped;
  header.time_of = spec.time_of;
  header.soak = spec.soak;
  header.split = spec.split.text();
  return out.on(header);
}

}  // namespace collctl::cmd
