// Network devices: RDMA ports, else the interfaces of sockets.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/whole_number.h"
#include "topology/detect/discover_parts.h"

namespace collctl::topology {
namespace {

const std::string kInfiniband = "/sys/class/infiniband/";
constexpr int kMaxPorts = 255;                 // of one device
constexpr int64_t kSocketConnections = 65536;  // as NCCL's files say
constexpr int kMostStacked = 8;                // interfaces upon interfaces: a VLAN on a bond

class NetFinder {
 public:
  explicit NetFinder(Detection& detection)
      : detection_(detection), files_(detection.files), drivers_(detection.reader.drivers) {
    for (size_t i = 0; i < drivers_.rdma.size(); ++i) verbs_.try_emplace(drivers_.rdma[i].name, i);
    if (drivers_.interfaces)
      for (const InterfaceFacts& each : *drivers_.interfaces)
        interfaces_.try_emplace(each.name, &each);
  }

  void find() {
    const std::vector<std::string> devices = rdma_devices();
    for (const std::string& name : devices) add_rdma(name);
    if (!devices.empty() && !drivers_.verbs_missing.empty())
      detection_.note(
          Severity::warning,
          format("there are RDMA devices but no libibverbs ({})", drivers_.verbs_missing), "",
          "install libibverbs1 and ibverbs-providers");
    if (next_ > 0) return;
    detection_.note(devices.empty() ? Severity::note : Severity::warning,
                    devices.empty()
                        ? "no RDMA device; network interfaces are used with sockets"
                        : "no active RDMA port; network interfaces are used with sockets",
                    "");
    add_sockets();
  }

 private:
  // In the order of verbs, which numbers them; then those that verbs does not show. A device that
  // only verbs shows (a container without /sys) has no known place.
  std::vector<std::string> rdma_devices() {
    std::vector<std::string> names = files_.list("/sys/class/infiniband");
    for (const RdmaFacts& facts : drivers_.rdma)
      if (std::find(names.begin(), names.end(), facts.name) == names.end())
        names.push_back(facts.name);
    const auto place = [&](const std::string& name) {
      const auto at = verbs_.find(name);
      return at != verbs_.end() ? at->second : drivers_.rdma.size();
    };
    std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return place(a) < place(b);
    });
    if (names.size() > kMaxRdma) names.resize(kMaxRdma);
    return names;
  }

  const RdmaFacts* facts_of(const std::string& name) const {
    const auto at = verbs_.find(name);
    return at != verbs_.end() ? &drivers_.rdma[at->second] : nullptr;
  }

  // The <nic> of a device: function 0 of its card, or none of the PCI bus.
  Nic* nic_of(const std::string& device_link, bool whole_card) {
    const auto real = files_.real_path(device_link);
    auto folder = real ? PciWalk::device_above(*real) : std::nullopt;
    // A paravirtual device has no link of its own: as in NCCL, it hangs on the CPU.
    if (folder && !whole_card && !files_.read(*folder + "/max_link_speed")) folder.reset();
    if (!folder) {
      if (detection_.virtual_nics.empty()) detection_.virtual_nics.emplace_back();
      return &detection_.virtual_nics.front();
    }
    if (whole_card) {
      std::string first = *folder;
      first.back() = '0';
      if (files_.real_path(first) == first) folder = first;
    }
    Pci* pci = detection_.pci.add(*folder);
    if (pci == nullptr) return nullptr;
    if (pci->nics.empty()) pci->nics.emplace_back();
    return &pci->nics.front();
  }

  void add_rdma(const std::string& name) {
    Nic* nic = nic_of(kInfiniband + name + "/device", true);
    if (nic == nullptr) return;
    const int before = functions_[nic]++;  // other functions of the card
    const RdmaFacts* facts = facts_of(name);
    const std::string ports = kInfiniband + name + "/ports";
    for (int port = 1; port <= kMaxPorts; ++port) {  // the kernel leaves out none
      const std::string number = std::to_string(port);
      const std::optional<bool> active = is_active(ports + "/" + number + "/state", facts, port);
      if (!active) break;
      if (!*active) {
        std::string down = nic->ports_down.value_or("");
        if (down.size() + name.size() + 8 < kMaxAttributeBytes)
          nic->ports_down = down + (down.empty() ? "" : " ") + format("{}:{}", name, port);
        continue;
      }
      if (size_t(next_) >= kMaxRdmaNets) {
        detection_.note(
            Severity::warning,
            format("more than {} active RDMA ports; the rest are ignored", kMaxRdmaNets), name);
        return;
      }
      Net net;
      // Ports of one device would else have one name.
      net.name = port == 1 ? name : format("{}:{}", name, port);
      net.dev = next_++;
      net.speed_mbps = rdma_speed(ports + "/" + number + "/rate", facts, port);
      net.port = port + before;
      net.guid = guid_of(name, facts);
      if (facts != nullptr && facts->max_qp > 0) net.max_connections = facts->max_qp;
      net.gdr = detection_.gpu_memory;
      nic->nets.push_back(std::move(net));
    }
  }

  // None: there is no such port.
  std::optional<bool> is_active(const std::string& file, const RdmaFacts* facts, int port) {
    if (const auto state = files_.read(file)) return std::atoi(state->c_str()) == 4;  // "4: ACTIVE"
    if (facts != nullptr)
      for (const RdmaPortFacts& each : facts->ports)
        if (each.port == port) return each.active;
    return std::nullopt;
  }

  // "400 Gb/sec (4X NDR)"
  std::optional<int64_t> rdma_speed(const std::string& path, const RdmaFacts* facts, int port) {
    const std::string text = files_.read(path).value_or("");
    double gbps = 0;
    std::from_chars(text.data(), text.data() + text.size(), gbps);
    if (gbps > 0 && gbps < 1e6) return int64_t(std::llround(gbps * 1000));
    if (facts != nullptr)
      for (const RdmaPortFacts& each : facts->ports)
        if (each.port == port && each.mbps > 0) return each.mbps;
    return std::nullopt;
  }

  // The bytes "b8ce:f603:00d4:e0a4" in memory order, as verbs hands them out: equal for all
  // functions of a card.
  std::optional<uint64_t> guid_of(const std::string& name, const RdmaFacts* facts) {
    for (const char* file : {"/sys_image_guid", "/node_guid"}) {
      std::string digits = files_.read(kInfiniband + name + file).value_or("");
      digits.erase(std::remove(digits.begin(), digits.end(), ':'), digits.end());
      const auto value = base::whole_number<uint64_t>(digits, 16);
      if (digits.size() == 16 && value) return __builtin_bswap64(*value);
    }
    return facts != nullptr ? std::optional(facts->system_guid) : std::nullopt;
  }

  bool usable(const std::string& name) {
    if (drivers_.interfaces) {
      const auto at = interfaces_.find(name);
      return at != interfaces_.end() && at->second->up && !at->second->loopback &&
             at->second->addressed;
    }
    // Only files: an interface without a link says so; "unknown" is what many virtual ones say.
    const std::string state = files_.read("/sys/class/net/" + name + "/operstate").value_or("");
    return name != "lo" && (state == "up" || state == "unknown");
  }

  // A device, or an interface that stands on one: a bond, a VLAN, the bridge that a NIC is a port
  // of. Interfaces with no device below belong to containers, virtual machines and tunnels.
  bool real(const std::string& name, int deep = 0) {
    const std::string folder = "/sys/class/net/" + name;
    if (files_.real_path(folder + "/device")) return true;
    if (deep == kMostStacked) return false;
    constexpr std::string_view kLower = "lower_";
    for (const std::string& entry : files_.list(folder))
      if (entry.starts_with(kLower) && real(entry.substr(kLower.size()), deep + 1)) return true;
    return false;
  }

  bool leads_nowhere(const std::string& name) {
    const auto at = interfaces_.find(name);
    return base::is_inner_interface(name) ||
           (at != interfaces_.end() && !at->second->aside.empty());
  }

  std::vector<std::string> interfaces() {
    std::vector<std::string> all;
    if (drivers_.interfaces)
      for (const InterfaceFacts& each : *drivers_.interfaces) all.push_back(each.name);
    else
      all = files_.list("/sys/class/net");
    std::vector<std::string> chosen, not_real, of_containers;
    for (const std::string& name : all) {
      if (!usable(name)) continue;
      (leads_nowhere(name) ? of_containers : real(name) ? chosen : not_real).push_back(name);
    }
    // Virtual interfaces are no devices of a machine, unless it has no other: in a container eth0
    // is one. As in NCCL, bridges of containers and virtual machines come last.
    if (chosen.empty()) chosen = not_real.empty() ? of_containers : not_real;
    std::sort(chosen.begin(), chosen.end(), natural_less);
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    if (chosen.size() > kMaxSocketNets) {
      detection_.note(
          Severity::note,
          format("{} network interfaces; the first {} count", chosen.size(), kMaxSocketNets), "");
      chosen.resize(kMaxSocketNets);
    }
    return chosen;
  }

  void add_sockets() {
    for (const std::string& name : interfaces()) {
      const std::string folder = "/sys/class/net/" + name;
      Nic* nic = nic_of(folder + "/device", false);
      if (nic == nullptr) continue;
      Net net;
      net.name = name;
      net.dev = next_++;
      net.speed_mbps = socket_speed(folder, name);
      net.port = 0;
      net.guid = 0;
      net.max_connections = kSocketConnections;
      net.gdr = false;
      nic->nets.push_back(std::move(net));
    }
    if (next_ == 0)
      detection_.note(Severity::warning, "no network interface is up and has an address", "",
                      "ip address shows them");
  }

  // The kernel says -1, or nothing, of many virtual interfaces.
  std::optional<int64_t> socket_speed(const std::string& folder, const std::string& name) {
    const int64_t mbps = std::atoll(files_.read(folder + "/speed").value_or("").c_str());
    if (mbps > 0 && mbps <= 100'000'000) return mbps;
    const auto at = interfaces_.find(name);
    if (at != interfaces_.end() && at->second->mbps > 0) return at->second->mbps;
    detection_.note(Severity::note,
                    "a network interface does not report its speed; 10 Gb/s is assumed", name);
    return std::nullopt;
  }

  Detection& detection_;
  FileTree& files_;
  const DriverFacts& drivers_;
  std::map<std::string, size_t> verbs_;  // place in DriverFacts::rdma
  std::map<std::string, const InterfaceFacts*> interfaces_;
  int next_ = 0;
  std::map<const Nic*, int> functions_;
};

}  // namespace

void discover_nets(Detection& detection) {
  NetFinder(detection).find();
}

}  // namespace collctl::topology
