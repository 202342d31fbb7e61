#include "topology/detect/merge.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "topology/bandwidth.h"
#include "topology/findings.h"

namespace collctl::topology {
namespace {

template <class T>
void complete(std::optional<T>& to, const std::optional<T>& from) {
  if (!to) to = from;
}
void complete(std::optional<std::string>& to, const std::optional<std::string>& from) {
  if (!to || to->empty()) to = from;
}

class Merger {
 public:
  Merger(const System& file, const System& detected, const std::string& source)
      : detected_(detected), findings_(source) {
    merged_.system = file;
    one_node_ = file.cpus.size() == 1 && detected.cpus.size() == 1;
  }

  Merged run() {
    for (Cpu& cpu : merged_.system.cpus)
      for (Pci& pci : cpu.children) index(pci);
    for_nets(merged_.system.cpus, [&](const Net& net) { file_nets_.insert(net.name); });
    for_nets(detected_.cpus, [&](const Net& net) { detected_nets_.insert(net.name); });
    for (const Cpu& cpu : detected_.cpus)
      for (const Nic& nic : cpu.nics)
        for (const Net& net : nic.nets) placeless_.insert(net.name);
    for (const Cpu& cpu : detected_.cpus) {
      complete_cpu(cpu);
      for (const Pci& pci : cpu.children) visit(pci, cpu);
    }
    say_absent();
    for (const Added& added : added_) attach(added);
    add_virtual_nics();
    number_anew();
    merged_.findings = findings_.take();
    return std::move(merged_);
  }

 private:
  void note(Severity severity, std::string what, BusId device, std::string remedy) {
    findings_.add({severity, std::move(what), bus_id_text(device), std::move(remedy)});
  }

  // Where a device of the file is. Pointers stay good: nothing is added inside the file's own
  // elements before all are completed.
  void index(Pci& pci) {
    file_.try_emplace(pci.bus_id, &pci);
    for (Pci& child : pci.children) index(child);
  }

  Cpu* cpu_of(std::optional<int> numa) {
    for (Cpu& cpu : merged_.system.cpus)
      if (cpu.numa == numa) return &cpu;
    return nullptr;
  }

  void complete_cpu(const Cpu& from) {
    Cpu* cpu = cpu_of(from.numa);
    // One node in both: the same, whatever the file calls it.
    if (cpu == nullptr && one_node_) cpu = &merged_.system.cpus.front();
    if (cpu == nullptr) return;  // comes with its devices, if any
    if (cpu->model && from.model && (cpu->model != from.model || cpu->family != from.family))
      findings_.add({Severity::warning, "the file describes a machine with another CPU",
                     findings_.where({}), "is this the file of another machine? its CPU is used"});
    complete(cpu->affinity, from.affinity);
    complete(cpu->arch, from.arch);
    complete(cpu->vendor, from.vendor);
    complete(cpu->family, from.family);
    complete(cpu->model, from.model);
  }

  // Detected devices, from the root down.
  void visit(const Pci& detected, const Cpu& cpu) {
    if (const auto known = file_.find(detected.bus_id); known != file_.end()) {
      complete_pci(*known->second, detected);
      for (const Pci& child : detected.children) visit(child, cpu);
      return;
    }
    // A device that is not in the file is added, if nothing below it is there either.
    if (!any_known(detected)) {
      if (has_device(detected)) add(detected, cpu);
      return;
    }
    // A switch that the file leaves out or draws in another way.
    for (const Pci& child : detected.children) visit(child, cpu);
  }

  bool any_known(const Pci& pci) const {
    return file_.count(pci.bus_id) != 0 ||
           std::any_of(pci.children.begin(), pci.children.end(),
                       [&](const Pci& child) { return any_known(child); });
  }
  static bool has_device(const Pci& pci) {
    return pci.gpu || !pci.nics.empty() ||
           std::any_of(pci.children.begin(), pci.children.end(), has_device);
  }

  void add(const Pci& detected, const Cpu& cpu) {
    if (detected.gpu || !detected.nics.empty())
      note(Severity::note, "a device of this machine is missing in the file; it is added",
           detected.bus_id, "");
    added_.push_back({parent_of(detected.bus_id), cpu.numa, &detected, &cpu});
  }

  // The nearest device above a detected one that the file has too.
  std::optional<BusId> parent_of(BusId device) const {
    for (const Cpu& cpu : detected_.cpus)
      for (const Pci& pci : cpu.children) {
        std::optional<BusId> nearest;
        if (find_below(pci, device, nearest)) return nearest;
      }
    return std::nullopt;
  }
  bool find_below(const Pci& pci, BusId device, std::optional<BusId>& nearest) const {
    if (pci.bus_id == device) return true;
    for (const Pci& child : pci.children)
      if (find_below(child, device, nearest)) {
        if (!nearest && file_.count(pci.bus_id) != 0) nearest = pci.bus_id;
        return true;
      }
    return false;
  }

  void complete_pci(Pci& to, const Pci& from) {
    compare_links(to, from);
    complete(to.device_class, from.device_class);
    complete(to.vendor, from.vendor);
    complete(to.device, from.device);
    complete(to.subsystem_vendor, from.subsystem_vendor);
    complete(to.subsystem_device, from.subsystem_device);
    complete(to.link_speed, from.link_speed);
    if (to.link_width.value_or(0) == 0) to.link_width = from.link_width;
    complete(to.state.speed_now, from.state.speed_now);
    complete(to.state.width_now, from.state.width_now);
    complete(to.state.speed_able, from.state.speed_able);
    complete(to.state.width_able, from.state.width_able);
    if (to.peers.empty()) to.peers = from.peers;
    if (from.gpu) complete_gpu(to, *from.gpu);
    complete_nics(to, from);
    seen_.insert(to.bus_id);
  }

  void compare_links(const Pci& file, const Pci& machine) {
    const bool both =
        file.link_speed && machine.link_speed && file.link_width && machine.link_width;
    if (!both) return;
    const Bandwidth said = pci_bandwidth(file.link_speed, file.link_width);
    const Bandwidth found = pci_bandwidth(machine.link_speed, machine.link_width);
    if (!said.assumed.empty() || !found.assumed.empty() || said.gbps == found.gbps) return;
    note(Severity::warning,
         format("the file has {} x{} for a link, the machine {} x{}; the file is used",
                *file.link_speed, *file.link_width, *machine.link_speed, *machine.link_width),
         file.bus_id, "correct the file, or check for a degraded link");
  }

  void complete_gpu(Pci& to, const Gpu& from) {
    if (!to.gpu) {
      to.gpu = from;
      return;
    }
    Gpu& gpu = *to.gpu;
    if (gpu.sm && from.sm && gpu.sm != from.sm)
      note(Severity::warning,
           format("the file has a GPU of sm {}, the machine sm {}; the machine is used", *gpu.sm,
                  *from.sm),
           to.bus_id, "correct the file");
    // Numbers are the driver's: those of a file may be of another container.
    if (from.dev) gpu.dev = from.dev;
    if (from.rank) gpu.rank = from.rank;
    if (from.sm) gpu.sm = from.sm;
    complete(gpu.gdr, from.gdr);
    complete(gpu.name, from.name);
    complete(gpu.links_able, from.links_able);
    if (gpu.links.empty()) gpu.links = from.links;
    if (gpu.c2c.empty()) gpu.c2c = from.c2c;
    if (gpu.no_p2p.empty()) gpu.no_p2p = from.no_p2p;
    gpu.assumed.reset();
  }

  void complete_nics(Pci& to, const Pci& from) {
    if (from.nics.empty()) return;
    if (to.nics.empty()) {
      to.nics = from.nics;
      return;
    }
    drop_absent(to.nics, bus_id_text(to.bus_id));
    for (const Nic& nic : from.nics) {
      for (const Net& net : nic.nets) complete_net(to.nics.front(), to, net);
      complete(to.nics.front().ports_down, nic.ports_down);
    }
  }

  // Network devices that the machine does not have now: nothing could be sent by them.
  void drop_absent(std::vector<Nic>& nics, const std::string& where) {
    for (Nic& nic : nics)
      std::erase_if(nic.nets, [&](const Net& net) {
        if (detected_nets_.count(net.name) != 0) return false;
        findings_.add({Severity::warning,
                       "a network device in the file is not on this machine; it is ignored",
                       format("{} of {}", net.name, where),
                       "is its port up, is this the file of another machine?"});
        return true;
      });
  }

  void complete_net(Nic& first, Pci& to, const Net& from) {
    for (Nic& nic : to.nics)
      for (Net& net : nic.nets) {
        if (net.name != from.name) continue;
        if (net.speed_mbps && from.speed_mbps && *net.speed_mbps > 0 &&
            net.speed_mbps != from.speed_mbps)
          note(Severity::warning,
               format("the file has {} Mb/s for {}, the machine {}; the file is used",
                      *net.speed_mbps, net.name, *from.speed_mbps),
               to.bus_id, "correct the file, or check the port's speed");
        complete(net.dev, from.dev);
        if (net.speed_mbps.value_or(0) <= 0) net.speed_mbps = from.speed_mbps;
        complete(net.port, from.port);
        complete(net.guid, from.guid);
        complete(net.max_connections, from.max_connections);
        complete(net.gdr, from.gdr);
        return;
      }
    first.nets.push_back(from);
  }

  // GPUs of the file that the machine has not: they would be planned for but cannot run.
  void say_absent() {
    for (auto& [id, pci] : file_) {
      if (seen_.count(id) != 0) continue;
      const bool had_nics = !pci->nics.empty();
      if (pci->gpu) {
        note(Severity::warning, "a GPU in the file is not on this machine; it is ignored", id,
             "is this the file of another machine, or does this container see fewer GPUs?");
        pci->gpu.reset();
      }
      // The file has the place of a device that the machine has, but does not show where.
      for (Nic& nic : pci->nics)
        std::erase_if(nic.nets, [&](const Net& net) { return !placeless_.contains(net.name); });
      std::erase_if(pci->nics, [](const Nic& nic) { return nic.nets.empty(); });
      if (had_nics && pci->nics.empty()) {
        note(Severity::warning, "a NIC in the file is not on this machine; it is ignored", id,
             "is this the file of another machine?");
      }
    }
  }

  struct Added {
    std::optional<BusId> parent;
    std::optional<int> numa;
    const Pci* pci;
    const Cpu* cpu;
  };

  // Last, as it moves elements of the file.
  void attach(const Added& added) {
    if (added.parent)
      if (Pci* parent = find(*added.parent)) return parent->children.push_back(*added.pci);
    Cpu* cpu = cpu_of(added.numa);
    if (cpu == nullptr && one_node_) cpu = &merged_.system.cpus.front();
    if (cpu == nullptr) {
      Cpu fresh = *added.cpu;
      fresh.children.clear();
      fresh.nics.clear();
      merged_.system.cpus.push_back(std::move(fresh));
      cpu = &merged_.system.cpus.back();
    }
    cpu->children.push_back(*added.pci);
  }
  Pci* find(BusId id) {
    for (Cpu& cpu : merged_.system.cpus)
      for (Pci& pci : cpu.children)
        if (Pci* found = find_in(pci, id)) return found;
    return nullptr;
  }
  static Pci* find_in(Pci& pci, BusId id) {
    if (pci.bus_id == id) return &pci;
    for (Pci& child : pci.children)
      if (Pci* found = find_in(child, id)) return found;
    return nullptr;
  }

  void add_virtual_nics() {
    if (merged_.system.cpus.empty()) merged_.system.cpus.emplace_back();
    for (Cpu& cpu : merged_.system.cpus) drop_absent(cpu.nics, "no PCI device");
    std::set<std::string> names;
    for_nets(merged_.system.cpus, [&](const Net& net) { names.insert(net.name); });
    for (const Cpu& cpu : detected_.cpus)
      for (const Nic& nic : cpu.nics)
        for (const Net& net : nic.nets) {
          if (!names.insert(net.name).second) continue;
          std::vector<Nic>& nics = merged_.system.cpus.front().nics;
          if (nics.empty()) nics.emplace_back();
          nics.front().nets.push_back(net);
        }
  }

  // Devices of the file and of the machine may have taken the same number: those of the file keep
  // theirs.
  void number_anew() {
    std::set<int> taken;
    std::vector<Net*> added;
    for_nets(merged_.system.cpus, [&](Net& net) {
      if (file_nets_.count(net.name) == 0)
        added.push_back(&net);
      else
        taken.insert(net.dev.value_or(-1));
    });
    int next = 0;
    for (Net* net : added) {
      if (net->dev.value_or(-1) >= 0 && taken.insert(*net->dev).second) continue;
      while (!taken.insert(next).second) ++next;
      net->dev = next;
    }
  }

  // All network devices, of a const or a mutable list of CPUs.
  template <class Cpus, class Act>
  static void for_nets(Cpus& cpus, const Act& act) {
    for (auto& cpu : cpus) {
      for (auto& pci : cpu.children) nets_below(pci, act);
      for (auto& nic : cpu.nics)
        for (auto& net : nic.nets) act(net);
    }
  }
  template <class Device, class Act>
  static void nets_below(Device& pci, const Act& act) {
    for (auto& nic : pci.nics)
      for (auto& net : nic.nets) act(net);
    for (auto& child : pci.children) nets_below(child, act);
  }

  const System& detected_;
  Merged merged_;
  FindingList findings_;
  std::map<BusId, Pci*> file_;
  std::set<BusId> seen_;
  std::set<std::string> file_nets_, detected_nets_, placeless_;
  bool one_node_ = false;
  std::vector<Added> added_;
};

}  // namespace

Merged merge(const System& file, const System& detected, const std::string& source) {
  return Merger(file, detected, source).run();
}

}  // namespace collctl::topology
