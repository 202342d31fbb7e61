// The tree of `topo`: the file's own structure, so that every device is where it is plugged in.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/topo.h"
#include "topology/bandwidth.h"

namespace collctl::cmd {
namespace {

using namespace topology;

// A line and what hangs below it.
struct Branch {
  std::string text;
  std::vector<Branch> below;
};

void draw(const std::vector<Branch>& branches, const std::string& indent, std::string& to) {
  for (size_t i = 0; i < branches.size(); ++i) {
    const bool last = i + 1 == branches.size();
    to += indent + (last ? "`- " : "|- ") + branches[i].text + "\n";
    draw(branches[i].below, indent + (last ? "   " : "|  "), to);
  }
}

// Text of a file on a terminal: nothing that it would obey.
std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return text;
}

std::string counted(size_t number, const char* what) {
  return format("{} {}{}", number, what, number == 1 ? "" : "s");
}

class Tree {
 public:
  explicit Tree(const TopoView& view) : view_(view) {
    for (const int gpu : view.graph.gpus) {
      const Node& node = view.graph.nodes[size_t(gpu)];
      gpus_[{node.host, {node.id}}] = &node;
    }
    for (const int net : view.graph.nets) {
      const Node& node = view.graph.nodes[size_t(net)];
      nets_[{node.host, node.name}] = &node;
    }
  }

  std::string text() {
    std::vector<Branch> branches;
    std::map<uint64_t, int> hosts;
    for (const Cpu& cpu : view_.system.cpus) {
      host_ = hosts.try_emplace(cpu.host_hash.value_or(0), int(hosts.size())).first->second;
      branches.push_back(cpu_branch(cpu, view_.graph.cpus[branches.size()]));
    }
    std::string all = format("{}: {}, {}, {}\n", plain(view_.source),
                             counted(view_.graph.cpus.size(), "NUMA node"),
                             counted(view_.graph.gpus.size(), "GPU"),
                             counted(view_.graph.nets.size(), "network device"));
    draw(branches, "", all);
    return all;
  }

 private:
  std::string marks(BusId device) const {
    std::string text;
    for (const Oddity& oddity : view_.oddities)
      if (oddity.device == device && oddity.host == host_) text += "  ! " + oddity.mark;
    return text;
  }

  Branch cpu_branch(const Cpu& cpu, int node) {
    std::string text = format("CPU {}", cpu.numa.value_or(0));
    if (cpu.numa == -1) text = "CPU (NUMA unknown)";
    if (view_.graph.hosts > 1) text = format("host {} ", host_) + text;
    if (cpu.vendor && !cpu.vendor->empty()) text += "  " + plain(*cpu.vendor);
    if (cpu.model) text += format(" model {}", *cpu.model);
    for (const GraphLink& link : view_.graph.nodes[size_t(node)].links)
      if (link.kind == LinkKind::sys) {
        text += link.gbps >= kLocalGBps ? "" : format("  {:.4g} GB/s to other CPUs", link.gbps);
        break;
      }
    Branch branch{text, {}};
    for (const Pci& pci : cpu.children) branch.below.push_back(pci_branch(pci));
    for (const Nic& nic : cpu.nics) add_nets(nic, branch.below);
    return branch;
  }

  static std::string kind_text(const Pci& pci) {
    const uint32_t base = pci.device_class.value_or(0) >> 16;
    if (!pci.nics.empty()) return "NIC";
    if (!pci.children.empty() || base == 0x06) return "switch";
    if (base == 0x03 || base == 0x12) return "GPU without <gpu>";
    if (base == 0x02) return "NIC without <nic>";
    return "device";
  }

  std::string gpu_text(const Pci& pci) const {
    const Gpu& gpu = *pci.gpu;
    const auto found = gpus_.find({host_, pci.bus_id});
    const Node* node = found == gpus_.end() ? nullptr : found->second;
    std::string text = format("GPU {}", node != nullptr ? node->dev : gpu.dev.value_or(-1));
    const std::string name = pci_device_name(pci);
    if (!name.empty()) text += " " + name;
    text += node != nullptr ? format("  rank {}", node->rank) : "  not used";
    if (gpu.sm && !gpu.gcn) text += format("  sm {}", *gpu.sm);
    if (gpu.gcn) text += "  " + plain(*gpu.gcn);
    int count = 0;
    bool xgmi = false;
    for (const FabricLink& link : gpu.links) {
      count += link.count;
      xgmi = xgmi || link.kind == FabricKind::xgmi;
    }
    if (count > 0) text += format("  {} {}", count, xgmi ? "xGMI links" : "NVLinks");
    for (const C2cLink& link : gpu.c2c)
      text += format("  C2C {:.4g} GB/s", double(link.mbytes_per_s) * link.count / 1000);
    return text;
  }

  Branch pci_branch(const Pci& pci) {
    const Bandwidth uplink = pci_bandwidth(pci.link_speed, pci.link_width);
    std::string text = pci.gpu ? gpu_text(pci) : kind_text(pci);
    if (const std::string name = pci_device_name(pci); !pci.gpu && !name.empty())
      text += " " + name;
    text += format("  {}  {} {:.4g} GB/s{}", bus_id_text(pci.bus_id), pci_link_text(pci),
                   uplink.gbps, marks(pci.bus_id));
    Branch branch{text, {}};
    for (const Nic& nic : pci.nics) add_nets(nic, branch.below);
    for (const Pci& child : pci.children) branch.below.push_back(pci_branch(child));
    return branch;
  }

  void add_nets(const Nic& nic, std::vector<Branch>& to) {
    for (const Net& net : nic.nets) {
      const auto found = nets_.find({host_, net.name});
      if (found == nets_.end()) continue;
      const Node* node = found->second;
      nets_.erase(found);  // repetitions are left out
      std::string text =
          format("NET {} {}  {:.4g} Gb/s", node->dev, plain(net.name), node->net_gbps * 8);
      if (net.port && *net.port > 1) text += format("  port {}", *net.port);
      if (node->gdr) text += "  GDR";
      if (node->coll) text += "  in-network reduction";
      to.push_back({text, {}});
    }
  }

  const TopoView& view_;
  int host_ = 0;
  std::map<std::pair<int, BusId>, const Node*> gpus_;
  std::map<std::pair<int, std::string>, const Node*> nets_;
};

}  // namespace

std::string topo_tree(const TopoView& view) {
  return Tree(view).text();
}

}  // namespace collctl::cmd
