#include "topology/graph/graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "topology/bandwidth.h"
#include "topology/findings.h"
#include "topology/pci_use.h"

namespace collctl::topology {
namespace {

constexpr uint32_t kClassPowerBridge = 0x068001;  // NVLink to a POWER CPU

class Builder {
 public:
  Builder(const System& system, const std::string& source)
      : system_(system), source_(source), findings_(source) {
    flatten_switches(system_);
  }

  Result<Graph> build() {
    for (const Cpu& cpu : system_.cpus) {
      add_cpu(cpu);
      if (too_large_)
        return Error(
            ErrorCode::usage,
            format("{}: expected at most {} GPUs, network devices and NUMA nodes together, "
                   "and {} devices in use",
                   source_, kMaxEndpoints, kMaxNodes));
    }
    COLL_TRY(number_gpus());
    number_nets();
    for (const auto& [node, gpu] : gpu_elements_) {
      connect_fabric(node, *gpu);
      resolve_no_p2p(node, *gpu);
    }
    for (const auto& [node, pci] : joined_switches_) connect_peers(node, *pci);
    connect_cpus();
    compare_directions();
    for (Node& node : graph_.nodes)
      std::stable_sort(node.links.begin(), node.links.end(),
                       [](const GraphLink& a, const GraphLink& b) { return a.gbps > b.gbps; });
    graph_.hosts = std::max(1, int(hosts_.size()));
    graph_.findings = findings_.take();
    return std::move(graph_);
  }

 private:
  void note(Severity severity, const std::string& what, const Place& at,
            const std::string& remedy = {}) {
    findings_.add({severity, what, findings_.where(at), remedy});
  }

  int add_node(NodeKind kind, int host, int64_t id, int cpu) {
    Node node;
    node.kind = kind;
    node.host = host;
    node.id = id;
    node.cpu = cpu;
    if (kind == NodeKind::gpu || kind == NodeKind::net || kind == NodeKind::cpu) ++endpoints_;
    too_large_ = too_large_ || endpoints_ > kMaxEndpoints || graph_.nodes.size() >= kMaxNodes;
    graph_.nodes.push_back(std::move(node));
    return int(graph_.nodes.size()) - 1;
  }
  void connect(int from, int to, LinkKind kind, double gbps) {
    for (GraphLink& link : graph_.nodes[size_t(from)].links)
      if (link.to == to && link.kind == kind) {
        link.gbps += gbps;  // several links to one neighbour add up
        return;
      }
    graph_.nodes[size_t(from)].links.push_back({to, kind, gbps});
  }
  void connect_both(int a, int b, LinkKind kind, double gbps) {
    connect(a, b, kind, gbps);
    connect(b, a, kind, gbps);
  }

  void add_cpu(const Cpu& cpu) {
    const uint64_t hash = cpu.host_hash.value_or(0);
    const int host = hosts_.try_emplace(hash, int(hosts_.size())).first->second;
    const int at = add_node(NodeKind::cpu, host, cpu.numa.value_or(int(graph_.cpus.size())), -1);
    graph_.cpus.push_back(at);
    Node& node = graph_.nodes[size_t(at)];
    node.cpu = at;
    node.at = cpu.at;
    node.arch = cpu.arch.value_or("");
    node.vendor = cpu.vendor.value_or("");
    node.family = cpu.family.value_or(0);
    node.cpu_model = cpu.model.value_or(0);
    for (const Pci& pci : cpu.children) add_pci(pci, at, at);
    for (const Nic& nic : cpu.nics) {
      const bool fresh_net = std::any_of(nic.nets.begin(), nic.nets.end(), [&](const Net& net) {
        return net.dev != -1 && nets_seen_.count({host, net.name}) == 0;
      });
      if (!fresh_net) {
        add_nets(nic, at, false);  // only says so
        continue;
      }
      // Virtual interfaces share one NIC without an address of its own.
      auto [virtual_nic, fresh] = virtual_nics_.try_emplace(at, -1);
      if (fresh) {
        virtual_nic->second = add_node(NodeKind::nic, host, 0, at);
        connect_both(at, virtual_nic->second, LinkKind::pci, kLocalGBps);
      }
      add_nets(nic, virtual_nic->second, false);
    }
  }

  void add_pci(const Pci& pci, int parent, int cpu) {
    if (too_large_) return;
    const int host = graph_.nodes[size_t(cpu)].host;
    count_unlisted(pci);
    if (!is_used(pci)) {
      for (const Pci& child : pci.children) add_pci(child, parent, cpu);  // only counts
      return;
    }
    const Bandwidth uplink = pci_bandwidth(pci.link_speed, pci.link_width);
    if (!uplink.assumed.empty()) note(Severity::note, "a PCI device has " + uplink.assumed, pci.at);
    const bool is_nic = has_nets(pci.nics);
    const BusId id = is_nic ? pci.bus_id.card() : pci.bus_id;
    const NodeKind kind = is_used_gpu(pci) ? NodeKind::gpu : is_nic ? NodeKind::nic : NodeKind::pci;
    if (kind == NodeKind::nic) {
      // Ports that are functions of one card share its one link.
      if (const auto card = cards_.find({host, id}); card != cards_.end())
        return add_nic_parts(pci, card->second, cpu);
    }
    const int at = add_node(kind, host, id.value, cpu);
    Node& node = graph_.nodes[size_t(at)];
    node.at = pci.at;
    node.model = pci.vendor.value_or(0) << 16 | pci.device.value_or(0);
    if (!by_bus_.try_emplace({host, pci.bus_id}, at).second)
      note(Severity::warning, format("{} is listed more than once", bus_id_text(pci.bus_id)),
           pci.at, "give every device its own busid");
    connect_both(parent, at, LinkKind::pci, uplink.gbps);
    if (!pci.peers.empty()) joined_switches_.emplace_back(at, &pci);
    if (kind == NodeKind::gpu) add_gpu(*pci.gpu, at);
    if (kind == NodeKind::nic) {
      cards_[{host, id}] = at;
      return add_nic_parts(pci, at, cpu);
    }
    for (const Nic& nic : pci.nics) add_nets(nic, at, true);
    for (const Pci& child : pci.children) add_pci(child, at, cpu);
  }

  void add_nic_parts(const Pci& pci, int nic_node, int cpu) {
    for (const Nic& nic : pci.nics) add_nets(nic, nic_node, true);
    for (const Pci& child : pci.children) add_pci(child, nic_node, cpu);
  }

  void count_unlisted(const Pci& pci) {
    if (pci.gpu || has_nets(pci.nics) || !pci.children.empty()) return;
    if (is_gpu_class(pci.device_class))
      note(Severity::warning, "a device of class GPU has no <gpu> and is ignored", pci.at,
           "the file is a skeleton: detection adds the GPUs");
    else if (is_nic_class(pci.device_class))
      note(Severity::warning, "a device of class NIC has no <nic> and is ignored", pci.at,
           "the file is a skeleton: detection adds the NICs");
  }

  void add_gpu(const Gpu& gpu, int at) {
    Node& node = graph_.nodes[size_t(at)];
    node.at = gpu.at;
    node.dev = gpu.dev.value_or(-1);
    node.rank = gpu.rank.value_or(-1);
    node.sm = gpu.sm.value_or(0);
    node.amd = gpu.gcn.has_value() || system_.version == 2;
    node.gdr = gpu.gdr.value_or(false);
    for (const FabricLink& link : gpu.links) node.fabric_links += link.count;
    if (!gpu.sm) note(Severity::note, "a GPU has no sm; its links count as NVLink 3", gpu.at);
    if (!gpu.gdr) note(Severity::note, "a GPU has no gdr; 0 is assumed", gpu.at);
    graph_.gpus.push_back(at);
    gpu_elements_.emplace_back(at, &gpu);
  }

  void add_nets(const Nic& nic, int nic_node, bool on_pci) {
    const int host = graph_.nodes[size_t(nic_node)].host;
    const size_t of_others = graph_.nodes[size_t(nic_node)].links.size();
    for (const Net& net : nic.nets) {
      if (too_large_) return;
      if (net.dev == -1) continue;  // a part of a merged device
      const auto seen = nets_seen_.find({host, net.name});
      if (seen != nets_seen_.end()) {
        if (on_pci || graph_.nodes[size_t(seen->second)].dev != net.dev.value_or(-1))
          note(Severity::warning,
               format("{} is listed more than once; the first one counts", net.name), net.at);
        else
          note(Severity::note,
               "a virtual interface is repeated below another NUMA node; the first "
               "counts",
               net.at);
        continue;
      }
      const int cpu = graph_.nodes[size_t(nic_node)].cpu;
      const int at = add_node(NodeKind::net, host, net.dev.value_or(-1), cpu);
      nets_seen_[{host, net.name}] = at;
      fill_net(graph_.nodes[size_t(at)], net);
      number_port(graph_.nodes[size_t(at)], nic_node, of_others);
      connect_both(nic_node, at, LinkKind::net, graph_.nodes[size_t(at)].net_gbps);
      graph_.nets.push_back(at);
    }
  }

  // Newer cards show each port as a PCI function whose only port is 1, with the card's GUID: two
  // functions of one card are two ports. (The port that several cards of one GUID share, one for
  // each socket of the host, stays one.) `of_others`: so many links of the card are other
  // functions'.
  void number_port(Node& node, int nic_node, size_t of_others) {
    const Node& card = graph_.nodes[size_t(nic_node)];
    if (node.guid == 0 || card.id == 0) return;
    for (size_t i = 0; i < of_others; ++i) {
      const Node& other = graph_.nodes[size_t(card.links[i].to)];
      if (other.kind == NodeKind::net && other.guid == node.guid)
        node.port = std::max(node.port, other.port + 1);
    }
  }

  void fill_net(Node& node, const Net& net) {
    node.at = net.at;
    node.name = net.name;
    node.dev = net.dev.value_or(-1);
    node.port = net.port.value_or(0);
    node.guid = net.guid.value_or(0);
    node.gdr = net.gdr.value_or(false);
    node.coll = net.coll.value_or(false);
    node.latency_us = net.latency_us.value_or(0);
    const Bandwidth wire = net_bandwidth(net.speed_mbps);
    node.net_gbps = wire.gbps;
    node.net_assumed = !wire.assumed.empty();
    // On a live machine detection has said it, with the interface's name.
    if (node.net_assumed && net.at.line > 0)
      note(Severity::note, "a network device has " + wire.assumed, net.at);
    if (wire.gbps > 1000)
      note(Severity::warning,
           format("{} claims {} Gb/s, more than any device has", net.name, wire.gbps * 8), net.at,
           "correct its speed (Mb/s)");
    if (!net.gdr) note(Severity::note, "a network device has no gdr; 0 is assumed", net.at);
  }

  // Gives those without dev or rank the next free numbers, and orders the GPUs by dev.
  Status number_gpus() {
    std::map<std::pair<int, int>, Place> devs;
    std::map<int, Place> ranks;
    const auto twice = [&](const Node& node, const char* what, int number, const Place& other) {
      return Error(ErrorCode::usage, format("{}: two GPUs have {} {}: the other is at line {}",
                                            findings_.where(node.at), what, number, other.line));
    };
    for (const int gpu : graph_.gpus) {
      const Node& node = graph_.nodes[size_t(gpu)];
      if (node.dev >= 0)
        if (auto [seen, fresh] = devs.try_emplace({node.host, node.dev}, node.at); !fresh)
          return twice(node, "dev", node.dev, seen->second);
      if (node.rank >= 0)
        if (auto [seen, fresh] = ranks.try_emplace(node.rank, node.at); !fresh)
          return twice(node, "rank", node.rank, seen->second);
    }
    for (const int gpu : graph_.gpus) {
      Node& node = graph_.nodes[size_t(gpu)];
      if (node.dev >= 0) continue;
      node.dev = 0;
      while (!devs.try_emplace({node.host, node.dev}, node.at).second) ++node.dev;
      note(Severity::note, "a GPU has no dev; the next free number is assumed", node.at);
    }
    std::sort(graph_.gpus.begin(), graph_.gpus.end(), [&](int a, int b) {
      const Node &x = graph_.nodes[size_t(a)], &y = graph_.nodes[size_t(b)];
      return std::pair(x.host, x.dev) < std::pair(y.host, y.dev);
    });
    int next = 0;
    for (const int gpu : graph_.gpus) {
      Node& node = graph_.nodes[size_t(gpu)];
      if (node.rank >= 0) continue;
      while (!ranks.try_emplace(next, node.at).second) ++next;
      node.rank = next;
      note(Severity::note, "a GPU has no rank; ranks in the order of dev are assumed", node.at);
    }
    return {};
  }

  // A network device is named by its dev, so two may not have the same.
  void number_nets() {
    std::set<std::pair<int, int>> taken;
    std::vector<int> unnumbered;
    for (const int net : graph_.nets) {
      const Node& node = graph_.nodes[size_t(net)];
      if (node.dev < 0 || !taken.insert({node.host, node.dev}).second) unnumbered.push_back(net);
    }
    for (const int net : unnumbered) {
      Node& node = graph_.nodes[size_t(net)];
      note(Severity::warning,
           "a network device has no dev of its own; the next free number is "
           "assumed",
           node.at);
      node.dev = 0;
      while (!taken.insert({node.host, node.dev}).second) ++node.dev;
      node.id = node.dev;
    }
    std::sort(graph_.nets.begin(), graph_.nets.end(), [&](int a, int b) {
      const Node &x = graph_.nodes[size_t(a)], &y = graph_.nodes[size_t(b)];
      return std::pair(x.host, x.dev) < std::pair(y.host, y.dev);
    });
  }

  int nvswitch(int host) {
    if (nvswitch_ < 0) nvswitch_ = add_node(NodeKind::nvs, host, 0, -1);
    return nvswitch_;
  }

  void connect_fabric(int gpu, const Gpu& element) {
    const Node self = graph_.nodes[size_t(gpu)];
    for (const FabricLink& link : element.links) {
      const double each = link.kind == FabricKind::xgmi ? xgmi_bandwidth(element.gcn.value_or(""))
                                                        : nvlink_bandwidth(self.sm);
      const double all = link.count * each;
      const auto target = by_bus_.find({self.host, link.target});
      const bool is_gpu =
          target != by_bus_.end() && graph_.nodes[size_t(target->second)].kind == NodeKind::gpu;
      if (is_gpu && target->second == gpu)
        note(Severity::warning, "a GPU has links to itself; they are ignored", link.at,
             "correct the target");
      else if (is_gpu)
        connect(gpu, target->second, LinkKind::nvl, all);
      else if (link.target_class == kClassPowerBridge)
        connect_both(gpu, self.cpu, LinkKind::nvl, all);
      else if (is_gpu_class(link.target_class))
        note(Severity::note, "a GPU has links to one that is not listed; they are ignored",
             link.at);
      else {
        if (!link.target_class)
          note(Severity::note, "a link has no tclass; an NVSwitch is assumed", link.at);
        else if (link.target_class != kClassSwitch)
          note(Severity::warning,
               format("a link's tclass 0x{:06x} is no GPU, NVSwitch or CPU; an NVSwitch is assumed",
                      *link.target_class),
               link.at);
        connect_both(gpu, nvswitch(self.host), LinkKind::nvl, all);
      }
    }
    for (const C2cLink& link : element.c2c)
      connect_both(gpu, self.cpu, LinkKind::c2c, double(link.mbytes_per_s) * link.count / 1000);
  }

  void resolve_no_p2p(int at, const Gpu& element) {
    Node& self = graph_.nodes[size_t(at)];
    for (const BusId other : element.no_p2p) {
      const auto found = by_bus_.find({self.host, other});
      if (found != by_bus_.end() && found->second != at) self.no_p2p.push_back(found->second);
    }
  }

  void connect_peers(int at, const Pci& pci) {
    const int host = graph_.nodes[size_t(at)].host;
    for (const BusId peer : pci.peers) {
      const auto target = by_bus_.find({host, peer});
      if (target == by_bus_.end() || target->second == at)
        note(Severity::note, "a <pcilink> leads to no other switch in use; it is ignored", pci.at);
      else if (!linked(at, target->second, LinkKind::loc))
        connect(at, target->second, LinkKind::loc, kLocalGBps);
    }
  }

  bool linked(int from, int to, LinkKind kind) const {
    const auto& links = graph_.nodes[size_t(from)].links;
    return std::any_of(links.begin(), links.end(),
                       [&](const GraphLink& l) { return l.to == to && l.kind == kind; });
  }

  void connect_cpus() {
    for (const int a : graph_.cpus)
      for (const int b : graph_.cpus) {
        const Node& from = graph_.nodes[size_t(a)];
        if (a == b || from.host != graph_.nodes[size_t(b)].host) continue;
        const Bandwidth found = cpu_bandwidth(from.arch, from.vendor, from.family, from.cpu_model);
        if (!found.assumed.empty()) note(Severity::note, "a CPU has " + found.assumed, from.at);
        connect(a, b, LinkKind::sys, found.gbps);
      }
  }

  // GPU to GPU links are listed by both ends; ends that disagree are a dead link or a wrong file.
  void compare_directions() {
    for (const int a : graph_.gpus)
      for (const GraphLink& link : graph_.nodes[size_t(a)].links) {
        const Node& other = graph_.nodes[size_t(link.to)];
        if (link.kind != LinkKind::nvl || other.kind != NodeKind::gpu) continue;
        double back = 0;
        for (const GraphLink& reverse : other.links)
          if (reverse.to == a && reverse.kind == LinkKind::nvl) back = reverse.gbps;
        if (back >= link.gbps) continue;
        note(Severity::warning,
             format("{} has {} GB/s of links to {}, which lists {} GB/s back", node_name(graph_, a),
                    link.gbps, node_name(graph_, link.to), back),
             graph_.nodes[size_t(a)].at, "look for links that are down");
      }
  }

  System system_;
  std::string source_;
  Graph graph_;
  size_t endpoints_ = 0;
  bool too_large_ = false;
  std::map<uint64_t, int> hosts_;
  std::map<std::pair<int, BusId>, int> by_bus_, cards_;
  std::map<int, int> virtual_nics_;
  int nvswitch_ = -1;
  std::map<std::pair<int, std::string>, int> nets_seen_;
  std::vector<std::pair<int, const Gpu*>> gpu_elements_;
  std::vector<std::pair<int, const Pci*>> joined_switches_;
  FindingList findings_;
};

}  // namespace

Result<Graph> make_graph(const System& system, const std::string& source) {
  return Builder(system, source).build();
}

}  // namespace collctl::topology
