// How two GPUs talk: P2P, shared memory or the network.
#include <algorithm>

#include "base/format.h"
#include "topology/graph/decide_common.h"

namespace collctl::topology {
namespace {

constexpr PathType kP2pLevel = PathType::pxb;
constexpr int kReadSm = 80;

bool is_one_host(const Graph& graph, int a, int b) {
  return node(graph, a).host == node(graph, b).host;
}

// Two GPUs on AMD's CPUs reach each other well through them; more would share the path.
bool is_two_gpus_on_amd(const Graph& graph) {
  const Node& cpu = node(graph, graph.cpus.front());
  return graph.gpus.size() <= 2 && cpu.vendor == "AuthenticAMD" && cpu.arch == "x86_64";
}

bool is_refused_by_driver(const Graph& graph, int a, int b) {
  const auto lists = [&](int from, int to) {
    const auto& refused = node(graph, from).no_p2p;
    return std::find(refused.begin(), refused.end(), to) != refused.end();
  };
  return lists(a, b) || lists(b, a);
}

// The fastest network device near to a GPU; 0 without one.
double near_net_gbps(const Graph& graph, const Paths& paths, int gpu) {
  double best = 0;
  for (const int net : graph.nets)
    if (paths.at(gpu, net).type <= PathType::pxb) best = std::max(best, paths.at(gpu, net).gbps);
  return best;
}

}  // namespace

const char* way_name(Way way) {
  static constexpr const char* kNames[] = {"P2P", "SHM", "NET"};
  return kNames[size_t(way)];
}

std::string level_text(PathType type, PathType level, const char* knob) {
  std::string text =
      format("the path is {}, {} is the limit", path_type_name(type), path_type_name(level));
  if (type > level) return text + format(" ({}={} would allow it)", knob, path_type_name(type));
  if (type == PathType::loc) return text;
  const PathType better = PathType(int(type) - 1);
  return text + format(" ({}={} would forbid it)", knob, path_type_name(better));
}

Path through_cpu(const Paths& paths, int from, int cpu, int to) {
  Path path = joined(paths.at(from, cpu), paths.at(cpu, to));
  if (path.type != PathType::dis) path.type = std::max(path.type, PathType::phb);
  return path;
}

Decision fabric(const Graph& graph, const Paths& paths, int gpu_a, int gpu_b) {
  if (is_one_host(graph, gpu_a, gpu_b)) return {false, "they are on one host"};
  const PathType type = paths.at(gpu_a, gpu_b).type;
  if (type > PathType::nvl)
    return {false, "they are on different hosts (NVSwitches that join the hosts would allow it)"};
  return {true, "they are on different hosts whose NVSwitches are joined (NVLink between hosts)"};
}

Decision p2p(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b) {
  if (!rules.p2p) return {false, "NCCL_P2P_DISABLE=1 forbids it"};
  if (!is_one_host(graph, gpu_a, gpu_b)) return fabric(graph, paths, gpu_a, gpu_b);
  const PathType type = paths.at(gpu_a, gpu_b).type;
  if (type == PathType::dis) return {false, "there is no path between them"};
  if (is_refused_by_driver(graph, gpu_a, gpu_b))
    return {false, format("the driver allows no P2P between them although the path is {} (IOMMU or "
                          "ACS settings, a virtual machine, or a driver that blocks it)",
                          path_type_name(type))};
  const bool relaxed = !rules.p2p_level && is_two_gpus_on_amd(graph);
  const PathType level = relaxed ? PathType::sys : rules.p2p_level.value_or(kP2pLevel);
  std::string why = relaxed ? "at most two GPUs on AMD CPUs: " : "";
  return {type <= level, why + level_text(type, level, "NCCL_P2P_LEVEL")};
}

Decision p2p_read(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a,
                  int gpu_b) {
  const Decision direct = p2p(graph, paths, rules, gpu_a, gpu_b);
  if (!direct.yes) return {false, "there is no P2P: " + direct.why};
  const Node &a = node(graph, gpu_a), &b = node(graph, gpu_b);
  const PathType type = paths.at(gpu_a, gpu_b).type;
  const bool yes = !a.amd && !b.amd && a.sm == kReadSm && b.sm == kReadSm &&
                   (type == PathType::nvl || type == PathType::nvb);
  return {yes,
          format("sm {} and sm {} by {}: reading pays off only between two sm {} GPUs over NVLink",
                 a.sm, b.sm, path_type_name(type), kReadSm)};
}

Decision shm(const Graph& graph, const Rules& rules, int gpu_a, int gpu_b) {
  if (!rules.shm) return {false, "NCCL_SHM_DISABLE=1 forbids it"};
  if (!is_one_host(graph, gpu_a, gpu_b))
    return {false, "they are on different hosts and share no memory"};
  return {true,
          "they are on one host (NCCL_SHM_DISABLE=1, or a /dev/shm of its own for each container, "
          "would forbid it)"};
}

Path pair_path(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b) {
  if (p2p(graph, paths, rules, gpu_a, gpu_b).yes) return paths.at(gpu_a, gpu_b);
  if (!is_one_host(graph, gpu_a, gpu_b)) return {};
  return through_cpu(paths, gpu_a, node(graph, gpu_b).cpu, gpu_b);
}

Decision by_network(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a,
                    int gpu_b) {
  if (!is_one_host(graph, gpu_a, gpu_b)) return {true, "they are on different hosts"};
  if (!rules.net_intra) return {false, "NCCL_NET_DISABLE_INTRA=1 forbids it"};
  const double between = pair_path(graph, paths, rules, gpu_a, gpu_b).gbps;
  const double a = near_net_gbps(graph, paths, gpu_a), b = near_net_gbps(graph, paths, gpu_b);
  const bool yes = a > between && b > between;
  return {yes, format("{:.4g} GB/s between them, {:.4g} and {:.4g} GB/s to network devices up to "
                      "PXB away ({})",
                      between, a, b,
                      yes ? "NCCL_NET_DISABLE_INTRA=1 would forbid it"
                          : "both would have to be faster")};
}

GpuWay gpu_way(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b) {
  const bool one_host = is_one_host(graph, gpu_a, gpu_b);
  const Decision faster = by_network(graph, paths, rules, gpu_a, gpu_b);
  if (one_host && faster.yes) return {Way::net, faster.why};
  const Decision direct = p2p(graph, paths, rules, gpu_a, gpu_b);
  if (direct.yes) return {Way::p2p, direct.why};
  const Decision memory = shm(graph, rules, gpu_a, gpu_b);
  if (memory.yes) return {Way::shm, "no P2P: " + direct.why + "; " + memory.why};
  return {Way::net, "no P2P: " + direct.why + "; no shared memory: " + memory.why};
}

}  // namespace collctl::topology
