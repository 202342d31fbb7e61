#include "cmd/measure/fields.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>
#include <tuple>

#include "base/bytes.h"
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
Bytes mine(const runtime::Communicator& whole, const HeaderFacts& facts) {
  const runtime::Communicator& communicator = facts.group != nullptr ? *facts.group : whole;
  const auto number = [&](int rank) {
    return int32_t(facts.group != nullptr ? facts.group->members()[size_t(rank)] : rank);
  };
  ByteWriter writer;
  const std::vector<int> cores = base::affinity_cores();
  writer.put(int32_t(base::usable_cores())).put(uint32_t(cores.size()));
  for (const int core : cores) writer.put(int32_t(core));
  writer.put(double(base::known_wakeup_ns()) * 1e-3);
  const base::Processors& processors = base::host_processors();
  writer.put_string(format("{}{}{}", processors.model.name.substr(0, kMostWord / 2),
                           processors.model.name.empty() ? "" : ", ",
                           counted_cores(processors.cores)));
  writer.put_string(base::own_host_name().substr(0, kMostWord));
  const auto links = communicator.links();
  double init_s = communicator.init_times().total;
  if (facts.group != nullptr) init_s += whole.init_times().total;
  writer.put(init_s).put(number(communicator.windows().team().front()));
  writer.put(uint32_t(links.size()));
  for (const auto& link : links)
    writer.put(int32_t(link.channel))
        .put(number(link.from))
        .put(number(link.to))
        .put_string(link.via)
        .put_string(link.nic)
        .put_string(std::string_view(link.why).substr(0, kMostWhy))
        .put(link.relay < 0 ? int32_t(-1) : number(link.relay));
  if (const auto device = communicator.device()) {
    const transport::DeviceFacts& gpu = device->facts();
    writer.put_string(gpu.name).put_string(gpu.bus_id).put(communicator.device_bytes());
    writer.put_string(facts.clocks.substr(0, kMostWord));
  }
  return writer.take();
}

using Links = std::map<std::tuple<int, int, int>, LinkLine>;  // both ends tell of a link

// The cores of a host that its ranks may use: each may be bound to some of them.
struct HostCores {
  std::set<int> allowed;
  int quota = INT_MAX;  // of a cgroup that gives less than the affinity allows
  std::vector<std::vector<int>> of_rank;

  void read_rank(ByteReader& reader) {
    std::vector<int>& mine = of_rank.emplace_back();
    const auto usable = reader.get<int32_t>();
    const auto count = reader.get<uint32_t>();
    if (count > kMostCores) reader.fail();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) mine.push_back(reader.get<int32_t>());
    allowed.insert(mine.begin(), mine.end());
    if (usable < int(count)) quota = std::min(quota, usable);
  }
  void describe(HostLine& line) const {
    for (const auto& mine : of_rank) {
      line.cores.push_back(base::number_ranges(mine, ","));
      line.bound |= mine.size() < allowed.size();
    }
  }
  int count() const { return std::max(1, std::min(int(allowed.size()), quota)); }
};

struct RankSays {
  GpuLine gpu;
  std::string machine, own_name;
  double wakeup_us = 0;
  double init_seconds = 0;
  int team = 0;  // the lowest rank of those that map each other's windows
};
Result<RankSays> read_rank(int rank, const Bytes& blob, bool on_gpu, HostCores& cores,
                           Links& links) {
  ByteReader reader(blob);
  RankSays said;
  cores.read_rank(reader);
  said.wakeup_us = reader.get<double>();
  said.machine = reader.get_string(kMostWord);
  said.own_name = reader.get_string(kMostWord);
  said.init_seconds = reader.get<double>();
  said.team = reader.get<int32_t>();
  const auto count = reader.get<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto channel = reader.get<int32_t>(), from = reader.get<int32_t>(),
               to = reader.get<int32_t>();
    LinkLine line{channel, from, to, reader.get_string(kMostWord)};
    const std::string nic = reader.get_string(kMostWord);
    line.why = reader.get_string(kMostWhy);
    line.relay = reader.get<int32_t>();
    // The network is what its two ends say, the relay and the target.
    if (line.relay >= 0 && rank != from) line.via += "/PXN";
    LinkLine& known = links.try_emplace({channel, from, to}, line).first->second;
    if (line.relay >= 0 && rank != from) known.via = line.via;
    (rank == to ? known.to_nic : known.from_nic) = nic;
    // The two ends may have their own reasons.
    if (known.why != line.why && !line.why.empty())
      known.why += (known.why.empty() ? "" : "; the other end: ") + line.why;
  }
  if (on_gpu) {
    said.gpu.name = reader.get_string(kMostWord);
    said.gpu.bus_id = reader.get_string(kMostWord);
    said.gpu.held_bytes = reader.get<uint64_t>();
    said.gpu.note = reader.get_string(kMostWord);
  }
  if (!reader.ok() || !reader.at_end())
    return Error{ErrorCode::defect, "what a rank says of itself is cut short"};
  return said;
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
              communicator.gather_blobs(mine(communicator, facts), deadline));
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
    COLL_ASSIGN(RankSays said, read_rank(int(rank), all[rank], on_gpus, cores[at->second], links));
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
        if (std::any_of(members.begin(), members.end(), [&](int rank) {
              return std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end();
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
