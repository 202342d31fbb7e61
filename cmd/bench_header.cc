#include "cmd/bench_header.h"

#include <map>
#include <tuple>

#include "base/bytes.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/gpu_clocks.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostText = 256;

// What one rank tells: its links, and its GPU.
Bytes mine(const runtime::Communicator& communicator) {
  ByteWriter writer;
  const auto links = communicator.links();
  writer.put(communicator.init_times().total).put(uint32_t(links.size()));
  for (const auto& link : links)
    writer.put(int32_t(link.channel))
        .put(int32_t(link.from))
        .put(int32_t(link.to))
        .put_string(link.via);
  if (const auto device = communicator.device()) {
    const transport::DeviceFacts& facts = device->facts();
    writer.put_string(facts.name).put_string(facts.bus_id).put(communicator.device_bytes());
    writer.put_string(clock_note(facts.bus_id));
  }
  return writer.take();
}

using Links = std::map<std::tuple<int, int, int>, std::string>;  // both ends tell of a link

Result<GpuLine> read_rank(const Bytes& blob, bool on_gpu, double& init_seconds, Links& links) {
  ByteReader reader(blob);
  init_seconds = std::max(init_seconds, reader.get<double>());
  const auto count = reader.get<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    const auto channel = reader.get<int32_t>(), from = reader.get<int32_t>(),
               to = reader.get<int32_t>();
    links.emplace(std::tuple{channel, from, to}, reader.get_string(kMostText));
  }
  GpuLine gpu;
  if (on_gpu) {
    gpu.name = reader.get_string(kMostText);
    gpu.bus_id = reader.get_string(kMostText);
    gpu.held_bytes = reader.get<uint64_t>();
    gpu.note = reader.get_string(kMostText);
  }
  if (!reader.ok() || !reader.at_end())
    return Error{ErrorCode::defect, "what a rank says of itself is cut short"};
  return gpu;
}

// "4 ranks share 2 cores", or what is odd about a host's GPUs.
std::string note_of(const BenchHeader& header, const HostLine& here, bool on_gpus) {
  if (on_gpus) {
    for (const HostLine& host : header.hosts)
      for (size_t i = 0; i < host.gpus.size(); ++i)
        if (!host.gpus[i].note.empty())
          return format("GPU {} ({}) of {}: {}", host.devices[i], host.gpus[i].bus_id, host.host,
                        host.gpus[i].note);
    return "";
  }
  const int cores = base::usable_cores();
  if (here.ranks.size() <= size_t(cores)) return "";
  return format("{} ranks share {} core{}; times include the turns they take", here.ranks.size(),
                cores, cores == 1 ? "" : "s");
}

}  // namespace

Status send_header(const BenchSpec& spec, runtime::Communicator& communicator,
                   const std::string& versus, BenchSink& sink, Deadline deadline) {
  COLL_ASSIGN(const std::vector<Bytes> all,
              communicator.gather_blobs(mine(communicator), deadline));
  if (communicator.rank() != 0) return {};
  const bool on_gpus = communicator.device() != nullptr;
  const auto& peers = communicator.peers();
  BenchHeader header;
  header.version = peers[0].version;
  header.device = on_gpus ? "cuda" : "cpu";
  header.collective = spec.collective;
  header.ranks = communicator.size();
  header.cuda_graph = spec.cuda_graph;
  header.soak = spec.soak;
  header.versus = versus;
  Links links;
  std::map<uint64_t, size_t> lines;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const transport::PeerInfo& peer = peers[rank];
    COLL_ASSIGN(GpuLine gpu, read_rank(all[rank], on_gpus, header.init_seconds, links));
    const auto [at, fresh] = lines.emplace(peer.host_hash, header.hosts.size());
    if (fresh) header.hosts.emplace_back().host = peer.host;
    HostLine& line = header.hosts[at->second];
    line.ranks.push_back(peer.rank);
    line.devices.push_back(peer.device);
    line.pids.push_back(peer.pid);
    if (on_gpus) line.gpus.push_back(std::move(gpu));
  }
  for (auto& [key, via] : links)
    header.links.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), via});
  header.note = note_of(header, header.hosts[lines[peers[0].host_hash]], on_gpus);
  sink.header(header);
  return {};
}

}  // namespace collctl::cmd
