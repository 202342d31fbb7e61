#include "topology/graph/decide.h"

#include <algorithm>

#include "base/format.h"
#include "topology/graph/decide_common.h"

namespace collctl::topology {
namespace {

constexpr int kReadSinceSm = 80;   // NICs read GPU memory at full speed
constexpr int kFlushUntilSm = 90;  // later GPUs keep the order of a NIC's writes

bool has_nvlink(const Graph& graph, int gpu) {
  const auto& links = node(graph, gpu).links;
  return std::any_of(links.begin(), links.end(),
                     [](const GraphLink& link) { return link.kind == LinkKind::nvl; });
}

// The lowest bits of `value` in reverse order, as many as `power` (a power of two) has below it.
int mirrored(int value, int power) {
  int result = 0;
  for (int low = 1, high = power >> 1; low < power; low <<= 1, high >>= 1)
    if ((value & low) != 0) result |= high;
  return result;
}

Decision gdr_able(const Graph& graph, int gpu, int net) {
  if (!node(graph, net).gdr)
    return {false, format("{} has gdr=0: its driver cannot access GPU memory (nvidia_peermem or "
                          "DMA-BUF would change that)",
                          node_name(graph, net))};
  if (!node(graph, gpu).gdr)
    return {false, format("{} has gdr=0: no NIC can access its memory (a GPU and driver with "
                          "GPUDirect RDMA would change that)",
                          node_name(graph, gpu))};
  return {true, ""};
}

// Whether a NIC should read this GPU's memory.
Decision gdr_reads(const Graph& graph, const Rules& rules, int gpu) {
  const Node& g = node(graph, gpu);
  if (rules.gdr_read.has_value() && !*rules.gdr_read)
    return {false, "NCCL_NET_GDR_READ=0 forbids NICs from reading GPU memory"};
  if (!rules.gdr_read && !g.amd && g.sm > 0 && g.sm < kReadSinceSm && graph.gpus.size() > 1 &&
      !has_nvlink(graph, gpu))
    return {
        false,
        format("{} (sm {}) is older than sm 80 and has no NVLink: a NIC reads its memory slower "
               "than host memory (NVLink between GPUs would change that, or "
               "NCCL_NET_GDR_READ=1)",
               node_name(graph, gpu), g.sm)};
  return {true, ""};
}

}  // namespace

Decision gdr(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
             Direction direction) {
  Decision able = gdr_able(graph, gpu, net);
  return able.yes ? gdr_wanted(graph, paths, rules, gpu, net, direction) : able;
}

Decision gdr_wanted(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
                    Direction direction) {
  if (direction == Direction::send)
    if (Decision reads = gdr_reads(graph, rules, gpu); !reads.yes) return reads;
  const PathType usual = rules.gdr_c2c ? PathType::p2c : PathType::pxb;
  const PathType level = rules.gdr_level.value_or(usual), type = paths.at(gpu, net).type;
  if (type == PathType::dis) return {false, "there is no path between them"};
  return {type <= level, level_text(type, level, "NCCL_NET_GDR_LEVEL")};
}

Decision flush(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net) {
  if (!gdr(graph, paths, rules, gpu, net, Direction::receive).yes)
    return {false, "without GDR the data is staged in host memory (GDR would change that)"};
  return flush_wanted(graph, paths, gpu, net);
}

Decision flush_wanted(const Graph& graph, const Paths& paths, int gpu, int net) {
  const Node& g = node(graph, gpu);
  const bool known = !g.amd && g.sm > 0;
  if (!known || g.sm < kFlushUntilSm)
    return {true, format("{} ({}) may see the flag before the data (GPUs from sm {} on do not)",
                         node_name(graph, gpu), known ? format("sm {}", g.sm) : "sm unknown",
                         kFlushUntilSm)};
  const PathType to_net = paths.at(gpu, net).type, to_cpu = paths.at(gpu, g.cpu).type;
  if (to_net <= PathType::pxb && to_cpu == PathType::c2c)
    return {true,
            format("the data arrives by {} and the flag by C2C, which may overtake it (a path "
                   "through the CPU would not need a flush)",
                   path_type_name(to_net))};
  return {false, format("sm {} keeps data and flag in order (before sm {} a flush would be needed)",
                        g.sm, kFlushUntilSm)};
}

std::vector<int> nearest_ends(const Paths& paths, int from, const std::vector<int>& candidates) {
  std::vector<int> best;
  PathType type = PathType::dis;
  double gbps = 0;
  for (const int to : candidates) {
    const Path& path = paths.at(from, to);
    if (path.type == PathType::dis) continue;
    if (path.gbps > gbps || (path.gbps == gbps && path.type < type)) {
      best.clear();
      type = path.type;
      gbps = path.gbps;
    }
    if (path.gbps == gbps && path.type == type) best.push_back(to);
  }
  return best;
}

Locality::Locality(const Graph& graph, const Paths& paths) {
  std::vector<int> gpus = graph.gpus, nets = graph.nets;
  std::sort(gpus.begin(), gpus.end());
  std::sort(nets.begin(), nets.end());
  for (const int gpu : gpus) {
    Choice& choice = choices_[gpu];
    choice.nets = nearest_ends(paths, gpu, nets);
    if (choice.nets.empty()) continue;
    const int count = int(choice.nets.size());
    // GPUs that share the devices start at different ones.
    const int sharers = std::max(1, int(nearest_ends(paths, choice.nets.front(), gpus).size()));
    choice.start = node(graph, gpu).dev % sharers;
    if ((count & (count - 1)) == 0) choice.start = mirrored(choice.start, count);
    choice.turns = (count + sharers - 1) / sharers;
  }
  for (int channel = 0; channel < int(nets.size()); ++channel)
    for (const int g : gpus)
      if (const int at = net(g, channel); at >= 0) gpu_of_.try_emplace(at, g);
}

int Locality::net(int gpu, int channel) const {
  const Choice& choice = choices_.at(gpu);
  if (choice.nets.empty()) return -1;
  return choice.nets[size_t(choice.start + channel % choice.turns) % choice.nets.size()];
}

int Locality::gpu(int net) const {
  const auto found = gpu_of_.find(net);
  return found == gpu_of_.end() ? -1 : found->second;
}

Relay pxn(const Graph& graph, const Paths& paths, const Locality& locality, const Rules& rules,
          int gpu, int net, bool always) {
  if (!rules.pxn) return {-1, "NCCL_PXN_DISABLE=1 forbids it"};
  const int relay = locality.gpu(net);
  const auto no = [](std::string why) { return Relay{-1, std::move(why)}; };
  if (relay < 0) return no(format("no GPU is next to {}", node_name(graph, net)));
  if (relay == gpu) return no("it is next to the NIC itself");
  const std::string name = node_name(graph, relay);
  if (node(graph, relay).host != node(graph, gpu).host)
    return no(format("{} next to the NIC is on another host", name));
  const Path &own = paths.at(gpu, net), &last = paths.at(relay, net), &first = paths.at(gpu, relay);
  if (last.type > (rules.pxn_c2c ? PathType::p2c : PathType::pxb))
    return no(format("{} reaches the NIC by {} only{}", name, path_type_name(last.type),
                     last.type == PathType::p2c ? " (NCCL_PXN_C2C=1 would allow it)" : ""));
  const Decision reads = gdr(graph, paths, rules, relay, net, Direction::send);
  if (!reads.yes) return no(reads.why);
  if (first.type > PathType::nvl)
    return no(
        format("it reaches {} by {} (NVLink would allow it)", name, path_type_name(first.type)));
  if (const Decision direct = p2p(graph, paths, rules, gpu, relay); !direct.yes)
    return no(format("no P2P with {}: {}", name, direct.why));
  if (!always && last.gbps <= own.gbps && own.type <= PathType::pxn)
    return no(format("its own path is {} and just as fast", path_type_name(own.type)));
  return {relay, format("{} is next to the NIC ({}) and one NVLink away; the own path is {} "
                        "(NCCL_PXN_DISABLE=1 would forbid it)",
                        name, path_type_name(last.type), path_type_name(own.type))};
}

std::vector<std::vector<int>> rail_senders(const Graph& graph, const Paths& effective,
                                           const Rules& rules, const std::vector<int>& gpus) {
  std::vector<std::vector<int>> senders(gpus.size(), std::vector<int>(graph.nets.size(), -1));
  if (rules.p2p_pxn_level == 0) return senders;
  const Paths paths = base_paths(graph, {.through_gpus = rules.nvb});
  const Locality locality(graph, paths);
  const PathType worst = rules.pxn_c2c ? PathType::p2c : PathType::pxb;
  const bool always = rules.p2p_pxn_level == 2;
  for (size_t g = 0; g < gpus.size(); ++g)
    for (size_t n = 0; n < graph.nets.size(); ++n) {
      const int gpu = gpus[g], net = graph.nets[n];
      const int relay = pxn(graph, paths, locality, rules, gpu, net, always).gpu;
      const bool itself = always ? locality.gpu(net) == gpu && paths.at(gpu, net).type <= worst
                                 : effective.at(gpu, net).type <= PathType::pxn;
      senders[g][n] = relay >= 0 ? relay : itself ? gpu : -1;
    }
  return senders;
}

Paths base_paths(const Graph& graph, const PathOptions& options) {
  Paths paths = make_paths(graph, options);
  for (const int gpu : graph.gpus)
    for (const int net : graph.nets) {
      const int cpu = node(graph, gpu).cpu;
      const Path &to_cpu = paths.at(gpu, cpu), &from_cpu = paths.at(cpu, net);
      if (to_cpu.type != PathType::c2c || from_cpu.type > PathType::phb) continue;
      if (paths.at(gpu, net).type <= PathType::p2c) continue;
      Path there = joined(to_cpu, from_cpu), back = joined(paths.at(net, cpu), paths.at(cpu, gpu));
      there.type = back.type = PathType::p2c;
      paths.at(gpu, net) = std::move(there);
      paths.at(net, gpu) = std::move(back);
    }
  return paths;
}

Paths effective_paths(const Graph& graph, const Paths& paths, const Rules& rules) {
  Paths made = paths;
  const Locality locality(graph, paths);
  const auto through = [&](int from, int middle, int to) {
    return through_cpu(paths, from, middle, to);
  };
  for (const int a : graph.gpus)
    for (const int b : graph.gpus)
      if (a != b && node(graph, a).host == node(graph, b).host)
        made.at(a, b) = pair_path(graph, paths, rules, a, b);
  for (const int gpu : graph.gpus)
    for (const int net : graph.nets) {
      const Relay relay = pxn(graph, paths, locality, rules, gpu, net);
      if (relay.gpu >= 0) {
        Path path = joined(paths.at(gpu, relay.gpu), paths.at(relay.gpu, net));
        path.type = PathType::pxn;
        made.at(gpu, net) = std::move(path);
      } else if (paths.at(gpu, net).type < PathType::phb &&
                 !gdr(graph, paths, rules, gpu, net, Direction::send).yes) {
        made.at(gpu, net) = through(gpu, node(graph, gpu).cpu, net);
      }
      if (paths.at(net, gpu).type < PathType::phb &&
          !gdr(graph, paths, rules, gpu, net, Direction::receive).yes)
        made.at(net, gpu) = through(net, node(graph, gpu).cpu, gpu);
    }
  return made;
}

}  // namespace collctl::topology
