#include "topology/decide.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::topology {
namespace {

constexpr PathType kP2pLevel = PathType::pxb;
constexpr PathType kGdrLevel = PathType::p2c;

const Node& node(const Graph& graph, int at) {
  return graph.nodes[size_t(at)];
}

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

bool is_two_gpus_on_amd(const Graph& graph) {
  const Node& cpu = node(graph, graph.cpus.front());
  return graph.gpus.size() <= 2 && cpu.vendor == "AuthenticAMD" && cpu.arch == "x86_64";
}

std::string level_text(PathType type, PathType level) {
  return format("the path is {}, {} is the limit", path_type_name(type), path_type_name(level));
}

// Rules of GDR but for the path.
Decision gdr_capable(const Graph& graph, int gpu, int net, Direction direction) {
  const Node& g = node(graph, gpu);
  if (!node(graph, net).gdr)
    return {false, format("{} has gdr=0: its driver cannot reach GPU memory (nvidia_peermem or "
                          "DMA-BUF would change that)",
                          node_name(graph, net))};
  if (!g.gdr)
    return {false, format("{} has gdr=0: no NIC can reach its memory", node_name(graph, gpu))};
  if (direction == Direction::send && !g.amd && g.sm > 0 && g.sm < 80 && graph.gpus.size() > 1 &&
      !has_nvlink(graph, gpu))
    return {false, format("{} (sm {}) is older than sm 80 and has no NVLink: a NIC reads it slower "
                          "than host memory",
                          node_name(graph, gpu), g.sm)};
  return {true, ""};
}

}  // namespace

Decision p2p(const Graph& graph, const Paths& paths, const Rules& rules, int gpu_a, int gpu_b) {
  const Path& path = paths.at(gpu_a, gpu_b);
  const bool relaxed = !rules.p2p_level && is_two_gpus_on_amd(graph);
  const PathType level = relaxed ? PathType::sys : rules.p2p_level.value_or(kP2pLevel);
  std::string why = level_text(path.type, level);
  if (relaxed) why += " with at most two GPUs on AMD CPUs";
  if (path.type == PathType::dis || node(graph, gpu_a).host != node(graph, gpu_b).host) {
    const bool fabric = path.type <= PathType::nvl;
    return {fabric, fabric ? "NVLink between hosts" : "they are on different hosts"};
  }
  const bool yes = path.type <= level;
  if (!yes) why += format(" (NCCL_P2P_LEVEL={} would allow it)", path_type_name(path.type));
  return {yes, why};
}

Decision gdr(const Graph& graph, const Paths& paths, const Rules& rules, int gpu, int net,
             Direction direction) {
  Decision capable = gdr_capable(graph, gpu, net, direction);
  if (!capable.yes) return capable;
  const PathType level = rules.gdr_level.value_or(kGdrLevel);
  const PathType type = paths.at(gpu, net).type;
  if (type <= level) return {true, level_text(type, level)};
  return {false, level_text(type, level) +
                     format(" (NCCL_NET_GDR_LEVEL={} would allow it)", path_type_name(type))};
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
  for (const int gpu : graph.gpus) {
    Choice& choice = choices_[gpu];
    choice.nets = nearest_ends(paths, gpu, graph.nets);
    if (choice.nets.empty()) continue;
    const int count = int(choice.nets.size());
    // GPUs that share the devices start at different ones.
    const int sharers = std::max(1, int(nearest_ends(paths, choice.nets.front(), graph.gpus).size()));
    choice.start = node(graph, gpu).dev % sharers;
    if ((count & (count - 1)) == 0) choice.start = mirrored(choice.start, count);
    choice.turns = (count + sharers - 1) / sharers;
  }
  for (int channel = 0; channel < int(graph.nets.size()); ++channel)
    for (const int g : graph.gpus)
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
          int gpu, int net) {
  if (!rules.pxn) return {-1, "NCCL_PXN_DISABLE forbids it"};
  const int relay = locality.gpu(net);
  const auto no = [](std::string why) { return Relay{-1, std::move(why)}; };
  if (relay < 0) return no(format("no GPU is next to {}", node_name(graph, net)));
  if (relay == gpu) return no("it is next to the NIC itself");
  const std::string name = node_name(graph, relay);
  if (node(graph, relay).host != node(graph, gpu).host)
    return no(format("{} next to the NIC is on another host", name));
  const Path &own = paths.at(gpu, net), &last = paths.at(relay, net), &first = paths.at(gpu, relay);
  if (last.type > PathType::p2c)
    return no(format("{} reaches the NIC by {} only", name, path_type_name(last.type)));
  const Decision reads = gdr(graph, paths, rules, relay, net, Direction::send);
  if (!reads.yes) return no(reads.why);
  if (first.type > PathType::nvl)
    return no(format("it reaches {} by {}, not by NVLink", name, path_type_name(first.type)));
  if (last.gbps <= own.gbps && own.type <= PathType::pxn)
    return no(format("its own path is {} and as fast", path_type_name(own.type)));
  return {relay, format("{} is next to the NIC ({}) and one NVLink away; the own path is {}", name,
                        path_type_name(last.type), path_type_name(own.type))};
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
    Path path = joined(paths.at(from, middle), paths.at(middle, to));
    if (path.type != PathType::dis) path.type = std::max(path.type, PathType::phb);
    return path;
  };
  for (const int a : graph.gpus)
    for (const int b : graph.gpus)
      if (a != b && !p2p(graph, paths, rules, a, b).yes &&
          node(graph, a).host == node(graph, b).host)
        made.at(a, b) = through(a, node(graph, b).cpu, b);
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
