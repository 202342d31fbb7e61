#include "cmd/topo/parts.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/number_ranges.h"
#include "launcher/hosts/placement.h"
#include "topology/bandwidth.h"
#include "topology/pci_use.h"

namespace collctl::cmd {
namespace {

using namespace topology;

bool all_in_domain_0(const std::vector<Pci>& list) {
  return std::ranges::all_of(list, [](const Pci& pci) {
    return pci.bus_id.value >> 20 == 0 && all_in_domain_0(pci.children);
  });
}

// The driver may have a name for a device that is not known here.
std::string device_name(const Pci& pci) {
  std::string name = pci_device_name(pci);
  if (!name.empty() || !pci.gpu) return name;
  name = plain(pci.gpu->name.value_or(""));
  return name.rfind("NVIDIA ", 0) == 0 ? name.substr(7) : name;
}

void collect_models(const Pci& pci, std::set<std::string>& names) {
  if (is_used_gpu(pci)) names.insert(device_name(pci));
  for (const Pci& child : pci.children) collect_models(child, names);
}

class PartMaker {
 public:
  explicit PartMaker(const TopoView& view) : view_(view), graph_(view.graph) {
    for (const int gpu : graph_.gpus) gpus_[{node(gpu).host, {node(gpu).id}}] = gpu;
    for (const int net : graph_.nets) nets_[{node(net).host, node(net).name}] = &node(net);
    short_ids_ = std::ranges::all_of(view.system.cpus,
                                     [](const Cpu& cpu) { return all_in_domain_0(cpu.children); });
  }

  Parts make() {
    parts_.several_hosts = graph_.hosts > 1;
    find_fabrics();
    for (size_t i = 0; i < view_.system.cpus.size(); ++i)
      parts_.cpus.push_back(cpu_part(view_.system.cpus[i], node(graph_.cpus[i])));
    return std::move(parts_);
  }

 private:
  const Node& node(int at) const { return graph_.nodes[size_t(at)]; }

  void find_fabrics() {
    for (const int gpu : graph_.gpus)
      for (const GraphLink& link : node(gpu).links) {
        if (link.kind != LinkKind::nvl) continue;
        const bool to_gpu = node(link.to).kind == NodeKind::gpu;
        if (to_gpu || node(link.to).kind == NodeKind::nvs)
          parts_.fabrics.push_back({gpu, to_gpu ? link.to : -1, 0, link.gbps, false});
      }
    std::ranges::sort(parts_.fabrics, [](const Fabric& a, const Fabric& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
  }

  // The graph knows the bandwidth, the file the number of links.
  void count_links(const Gpu& gpu, int from) {
    for (const FabricLink& link : gpu.links) {
      const auto peer = gpus_.find({node(from).host, link.target});
      const int to = peer == gpus_.end() ? -1 : peer->second;
      for (Fabric& fabric : parts_.fabrics)
        if (fabric.from == from && fabric.to == to) {
          fabric.count += link.count;
          fabric.xgmi = link.kind == FabricKind::xgmi;
          if (to < 0) switches_.insert(link.target);
        }
    }
    parts_.nvswitches = int(switches_.size());
  }

  std::string bus_text(BusId id) const {
    const std::string text = bus_id_text(id);
    return short_ids_ ? text.substr(text.find(':') + 1) : text;
  }

  std::string marks(const Pci& pci, const std::string& net) const {
    std::string text;
    for (const Oddity& oddity : view_.oddities)
      if (oddity.device == pci.bus_id && oddity.host == host_ && oddity.net == net &&
          !oddity.mark.empty())
        text += (text.empty() ? "" : ", ") + oddity.mark;
    return plain(text);
  }

  Part cpu_part(const Cpu& cpu, const Node& at) {
    Part part;
    host_ = at.host;
    part.kind = PartKind::cpu;
    part.host = host_;
    part.cpu = &cpu;
    part.node = &at;
    part.title = cpu.numa == -1 ? "CPU" : format("CPU {}", at.id);
    if (const std::string name = processor_name(cpu); !name.empty())
      part.details.push_back(plain(name));
    if (const int cores = processor_cores(view_, cpu); cores > 0)
      part.details.push_back(counted(size_t(cores), "core"));
    if (const int threads = processor_threads(cpu); threads > 0)
      part.details.push_back(counted(size_t(threads), "thread"));
    for (const GraphLink& link : at.links)
      if (link.kind == LinkKind::sys && link.gbps < kLocalGBps) {
        parts_.cpu_gbps = link.gbps;
        break;
      }
    for (const Pci& pci : cpu.children) part.below.push_back(pci_part(pci));
    for (const Nic& nic : cpu.nics) add_nets(nic, nullptr, part);
    return part;
  }

  Part pci_part(const Pci& pci) {
    Part part;
    part.host = host_;
    part.pci = &pci;
    part.bus = bus_text(pci.bus_id);
    const Bandwidth uplink = pci_bandwidth(pci.link_speed, pci.link_width);
    part.link = pci_link_text(pci);
    part.gbps = uplink.gbps;
    part.link_assumed = !uplink.assumed.empty();
    part.marks = marks(pci, "");
    const std::string name = device_name(pci);
    if (pci.gpu) {
      describe_gpu(*pci.gpu, name, part);
    } else if (!pci.nics.empty()) {
      part.kind = PartKind::nic;
      part.title = name.empty() ? "NIC" : name;
    } else if (!pci.children.empty() || pci.device_class.value_or(0) >> 16 == 0x06) {
      part.kind = PartKind::bridge;
      part.title = "switch";
    } else {
      part.title = is_gpu_class(pci.device_class)   ? "GPU without <gpu>"
                   : is_nic_class(pci.device_class) ? "NIC without <nic>"
                                                    : "device";
      if (!name.empty()) part.title += " " + name;
    }
    for (const Nic& nic : pci.nics) add_nets(nic, &pci, part);
    for (const Pci& child : pci.children) part.below.push_back(pci_part(child));
    return part;
  }

  void describe_gpu(const Gpu& gpu, const std::string& name, Part& part) {
    const auto found = gpus_.find({host_, part.pci->bus_id});
    part.kind = PartKind::gpu;
    part.assumed = gpu.assumed.value_or(false);
    part.node = found == gpus_.end() ? nullptr : &node(found->second);
    part.title = format("GPU {}", part.node != nullptr ? part.node->dev : gpu.dev.value_or(-1));
    if (!name.empty()) part.title += " " + name;
    if (gpu.gcn && name.empty()) part.details.push_back(plain(*gpu.gcn));
    if (gpu.sm && !gpu.gcn && name.empty()) part.details.push_back(format("sm {}", *gpu.sm));
    part.details.push_back(part.node != nullptr ? format("rank {}", part.node->rank) : "not used");
    if (part.node != nullptr) {
      count_links(gpu, found->second);
      part.fabrics = fabric_texts(found->second);
    }
    for (const C2cLink& link : gpu.c2c)
      part.details.push_back(
          format("C2C {:.4g} GB/s", double(link.mbytes_per_s) * link.count / 1000));
  }

  // "18 NVLinks to NVSwitch", "4 NVLinks to each of GPU 1, 2, 3".
  std::vector<std::string> fabric_texts(int gpu) const {
    std::map<std::pair<int, bool>, std::vector<int>> by_count;
    std::vector<std::string> texts;
    for (const Fabric& fabric : parts_.fabrics) {
      if (fabric.from != gpu) continue;
      const char* what = fabric.xgmi ? "xGMI link" : "NVLink";
      if (fabric.to < 0)
        texts.push_back(counted(size_t(fabric.count), what) + " to NVSwitch");
      else
        by_count[{-fabric.count, fabric.xgmi}].push_back(node(fabric.to).dev);
    }
    for (auto& [key, devs] : by_count) {
      std::ranges::sort(devs);
      texts.push_back(format("{}{} to GPU {}",
                             counted(size_t(-key.first), key.second ? "xGMI link" : "NVLink"),
                             devs.size() > 1 ? " each" : "", base::number_ranges(devs, ", ")));
    }
    return texts;
  }

  void add_nets(const Nic& nic, const Pci* pci, Part& to) {
    for (const Net& net : nic.nets) {
      const auto found = nets_.find({host_, net.name});
      if (found == nets_.end()) continue;
      PartNet part;
      part.node = found->second;
      nets_.erase(found);  // repetitions are left out
      part.name = plain(net.name);
      part.speed = format("{:.4g} Gb/s{}", part.node->net_gbps * 8,
                          part.node->net_assumed ? " (assumed)" : "");
      if (pci != nullptr) part.marks = marks(*pci, net.name);
      to.nets.push_back(std::move(part));
    }
  }

  const TopoView& view_;
  const Graph& graph_;
  Parts parts_;
  int host_ = 0;
  bool short_ids_ = true;
  std::map<std::pair<int, BusId>, int> gpus_;
  std::map<std::pair<int, std::string>, const Node*> nets_;
  std::set<BusId> switches_;
};

}  // namespace

Parts machine_parts(const TopoView& view) {
  return PartMaker(view).make();
}

int processor_cores(const TopoView& view, const Cpu& cpu) {
  if (!view.processors) return 0;
  const auto& nodes = view.processors->nodes;
  std::set<std::pair<int, int>> cores;  // by package
  for (const base::Processor& each : view.processors->online) {
    const bool known = each.numa >= 0 && size_t(each.numa) < nodes.size();
    if (view.graph.cpus.size() == 1 || (known && nodes[size_t(each.numa)].id == cpu.numa))
      cores.insert({each.package, each.core});
  }
  return int(cores.size());
}

std::string machine_summary(const TopoView& view) {
  std::set<std::string> names;
  for (const Cpu& cpu : view.system.cpus)
    for (const Pci& pci : cpu.children) collect_models(pci, names);
  const bool one_model = names.size() == 1 && !names.begin()->empty();
  std::string text = counted(view.graph.cpus.size(), "NUMA node") + ", " +
                     counted(view.graph.gpus.size(), "GPU") +
                     (one_model ? format(" ({})", *names.begin()) : "") + ", " +
                     counted(view.graph.nets.size(), "network device");
  return view.graph.hosts > 1 ? counted(size_t(view.graph.hosts), "host") + ", " + text : text;
}

}  // namespace collctl::cmd
