#include "base/host_state.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "base/drivers/nvml.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_files.h"
#include "base/nic_module.h"
#include "base/whole_number.h"

namespace collctl::base {
namespace {

using namespace host_files;

constexpr size_t kMostProcessors = 8192;
constexpr size_t kMostCommandLine = 4096;

class StateReading {
 public:
  StateReading(const std::string& root, HostState& to) : root_(root), to_(to) {}

  void gpus() {
    for (const fs::path& device : entries_of(root_ + "/sys/bus/pci/devices", kMostDevices)) {
      if (value_of(device / "vendor") != "0x10de" ||
          !value_of(device / "class").starts_with("0x03"))
        continue;
      std::error_code unbound;  // then the name is empty
      const std::string driver = fs::read_symlink(device / "driver", unbound).filename();
      if (driver == "vfio-pci" || driver == "pci-stub") continue;  // a virtual machine's
      DeviceState& gpu = to_.devices.emplace_back();
      gpu.kind = CounterOf::gpu;
      gpu.device = device.filename();
      pci_link(device, gpu);
    }
  }

  void rdma_ports() {
    for (const fs::path& folder : entries_of(root_ + "/sys/class/infiniband", kMostDevices))
      for (const int port : numbered(folder / "ports", 256)) {
        const fs::path at = folder / "ports" / std::to_string(port);
        DeviceState& nic = to_.devices.emplace_back();
        nic.kind = CounterOf::nic;
        nic.device = format("{} port {}", folder.filename().string(), port);
        nic.model = value_of(folder / "board_id");
        known(nic, "state", word_of(at / "state"));
        known(nic, "link", value_of(at / "link_layer"));
        known(nic, "firmware", value_of(folder / "fw_ver"));
        const double rate = std::strtod(value_of(at / "rate").c_str(), nullptr);
        if (rate > 0) nic.add("rate_Mbps", format("{:.0f}", rate * 1e3));
        const bool active = nic.find("state") != nullptr && *nic.find("state") == "ACTIVE";
        partitions(at / "pkeys", active, nic);
        if (active) known(nic, "gid_types", gid_types(at / "gid_attrs" / "types"));
        pci_link(folder / "device", nic);
        for (const fs::path& interface : entries_of(folder / "device" / "net", 64))
          of_rdma_.push_back(interface.filename());
      }
  }

  // Interfaces of PCI devices; the link of one that is an RDMA device's as well is told with that.
  void interfaces() {
    for (const fs::path& folder : entries_of(root_ + "/sys/class/net", kMostDevices)) {
      if (way_up(folder / "device").empty()) continue;
      DeviceState& nic = to_.devices.emplace_back();
      nic.kind = CounterOf::nic;
      nic.device = folder.filename();
      nic.model = format("{} {}", value_of(folder / "device" / "vendor"),
                         value_of(folder / "device" / "device"));
      known(nic, "state", value_of(folder / "operstate"));
      known(nic, "mtu", value_of(folder / "mtu"));
      if (const auto speed = whole_number(value_of(folder / "speed")); speed && *speed > 0)
        nic.add("rate_Mbps", std::to_string(*speed));
      if (std::ranges::find(of_rdma_, nic.device) == of_rdma_.end())
        pci_link(folder / "device", nic);
      known(nic, "ecn_np", bits(folder / "ecn/roce_np/enable"));
      known(nic, "ecn_rp", bits(folder / "ecn/roce_rp/enable"));
      // The kernel is asked about this machine alone.
      if (root_.empty() && value_of(folder / "operstate") == "up") ask_kernel(nic);
    }
  }

  void host() {
    DeviceState& host = to_.devices.emplace_back();
    host.kind = CounterOf::host;
    host.device = "host";
    known(host, "kernel", value_of(root_ + "/proc/sys/kernel/osrelease"));
    to_.uptime_s = std::strtoull(value_of(root_ + "/proc/uptime").c_str(), nullptr, 10);
    const std::string driver = value_of(root_ + "/sys/module/nvidia/version");
    known(host, "driver", driver);
    if (!driver.empty())
      host.add("imex_channels",
               std::to_string(
                   entries_of(root_ + "/dev/nvidia-caps-imex-channels", kMostDevices).size()));
    known(host, "peer_memory", gpu_peer_memory_module(root_));
    known(host, "iommu", iommu_words());
    known(host, "governor", governors());
    hugepages(host);
    struct statvfs space {};
    if (::statvfs((root_ + "/tmp").c_str(), &space) == 0)
      host.add("tmp_free_MiB", std::to_string(uint64_t(space.f_bavail) * space.f_frsize >> 20));
  }

 private:
  // Module and priorities of an interface that is up.
  void ask_kernel(DeviceState& nic) {
    const NicPriorities priorities = nic_priorities(nic.device);
    known(nic, "pfc", priorities.pfc);
    known(nic, "dscp", priorities.dscp);
    ModuleMemory memory(nic.device);
    const auto module = nic_module([&](const ModulePart& part) { return memory.read(part); });
    if (module) add_module(nic, *module);
    if (!module && memory.error() == EPERM)
      to_.unread.push_back(format("the module in {}: {}", nic.device, std::strerror(EPERM)));
  }

  // Eight priorities, the first for 0: "00010000"; empty: the driver does not say.
  static std::string bits(const fs::path& folder) {
    std::string text;
    for (int priority = 0; priority < 8; ++priority)
      text += value_of(folder / std::to_string(priority)).substr(0, 1);
    return text;
  }

  static void known(DeviceState& device, const char* name, std::string value) {
    if (!value.empty()) device.add(name, std::move(value));
  }

  static void pci_link(const fs::path& device, DeviceState& to) {
    const auto chain = way_up(device);
    if (chain.empty()) return;
    known(to, "bus", chain.front().filename());
    const auto add = [&](const PciLink& link, const std::string& end) {
      if (link.lanes > 0) to.add(("pcie_width" + end).c_str(), std::to_string(link.lanes));
      if (link.GTps > 0) to.add(("pcie_GTps" + end).c_str(), format("{:g}", link.GTps));
    };
    add(pci_link_at(chain[0]), "");
    std::string bridges;
    for (size_t i = 1; i < chain.size(); ++i)
      bridges += (i == 1 ? "" : " ") + chain[i].filename().string();
    known(to, "bridges", bridges);
    add(best_pci_link_at(chain[0]), "_most");
  }

  // Partitions of InfiniBand: a port with limited membership alone reaches full members only. One
  // that is not active has the keys of no subnet manager.
  static void partitions(const fs::path& folder, bool active, DeviceState& to) {
    constexpr unsigned long kFullMember = 0x8000;
    constexpr size_t kMostKeys = 64;  // in words
    int full = 0, limited = 0;
    std::set<unsigned long> keys;
    for (const int index : numbered(folder, 65536)) {
      const std::string text = value_of(folder / std::to_string(index));
      const unsigned long key = std::strtoul(text.c_str(), nullptr, 16);
      if ((key & ~kFullMember) == 0) continue;
      ++((key & kFullMember) != 0 ? full : limited);
      keys.insert(key & 0xffff);
    }
    if (keys.empty()) return;
    std::string text;
    size_t told = 0;
    for (auto key = keys.begin(); key != keys.end() && told < kMostKeys; ++key, ++told)
      text += format("{}0x{:04x}", told == 0 ? "" : " ", *key);
    if (keys.size() > told) text += format(" and {} more", keys.size() - told);
    if (active) to.add("pkeys", text);
    to.add("pkeys_full", std::to_string(full));
    to.add("pkeys_limited", std::to_string(limited));
  }

  // "IB/RoCE v1, RoCE v2": a place of the table without an address says nothing.
  static std::string gid_types(const fs::path& folder) {
    std::set<std::string> types;
    for (const int index : numbered(folder, 1024))
      types.insert(value_of(folder / std::to_string(index)));
    types.erase("");
    std::string text;
    for (const std::string& type : types) text += (text.empty() ? "" : ", ") + type;
    return text;
  }

  // Words of the kernel's command line, which may have secrets in others.
  std::string iommu_words() const {
    std::istringstream line(head_of(root_ + "/proc/cmdline", kMostCommandLine));
    std::string words, word;
    while (line >> word)
      for (const char* begin : {"iommu=", "intel_iommu=", "amd_iommu=", "iommu.passthrough="})
        if (word.starts_with(begin) && word.size() < 64) words += (words.empty() ? "" : " ") + word;
    return words.substr(0, kMostStateText);
  }

  std::string governors() const {
    std::map<std::string, int> counts;
    for (const fs::path& policy :
         entries_of(root_ + "/sys/devices/system/cpu/cpufreq", kMostProcessors))
      if (const std::string governor = value_of(policy / "scaling_governor"); !governor.empty())
        ++counts[governor];
    if (counts.size() == 1) return counts.begin()->first;
    std::string text;
    for (const auto& [governor, count] : counts)
      text += format("{}{} of {}", text.empty() ? "" : ", ", governor, count);
    return text.substr(0, kMostStateText);
  }

  void hugepages(DeviceState& host) const {
    uint64_t reserved = 0;
    bool any = false;
    for (const fs::path& size : entries_of(root_ + "/sys/kernel/mm/hugepages", 64)) {
      const std::string name = size.filename();  // "hugepages-2048kB"
      const auto pages = whole_number(value_of(size / "nr_hugepages"));
      if (!name.starts_with("hugepages-") || !pages || *pages < 0) continue;
      any = true;
      reserved += std::strtoull(name.c_str() + 10, nullptr, 10) * 1024 * uint64_t(*pages);
    }
    if (any) host.add("hugepages_MiB", std::to_string(reserved >> 20));
    // "MemTotal:       527936 kB"
    const std::string memory = value_of(root_ + "/proc/meminfo");
    if (const size_t at = memory.find_first_of("0123456789"); at != std::string::npos)
      host.add("memory_MiB", std::to_string(std::strtoull(memory.c_str() + at, nullptr, 10) >> 10));
  }

  const std::string root_;
  HostState& to_;
  std::vector<std::string> of_rdma_;  // interfaces
};

}  // namespace

void add_module(DeviceState& nic, const NicModule& module) {
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) nic.add(name, format("{:.1f}", *value));
  };
  if (!module.type.empty()) nic.add("module", module.type);
  if (!module.vendor.empty()) nic.add("module_vendor", module.vendor);
  if (!module.part.empty()) nic.add("module_part", module.part);
  add("module_C", module.temperature_C);
  add("module_most_C", module.most_C);
  add("module_least_uW", module.least_uW);
  for (const double light : module.received_uW) add("module_uW", light);
  add("module_tx_least_uW", module.least_sent_uW);
  for (const double light : module.sent_uW) add("module_tx_uW", light);
}

const std::string* DeviceState::find(const char* name) const {
  for (const StateFact& fact : facts)
    if (fact.name == name) return &fact.value;
  return nullptr;
}

void DeviceState::add(const char* name, std::string value) {
  if (value.size() > kMostStateText) value.resize(kMostStateText);
  if (facts.size() < kMostStateFacts) facts.push_back({name, std::move(value)});
}

static void fields(Record& io, StateFact& fact) {
  io.field("name", fact.name, 64);
  io.field("value", fact.value, kMostStateText);
}

static void fields(Record& io, DeviceState& device) {
  io.name("kind", device.kind, kCounterKinds, counter_kind_word);
  io.field("device", device.device, 256);
  io.field("model", device.model, 256);
  io.field("facts", device.facts, kMostStateFacts);
}

void fields(Record& io, HostState& state) {
  io.field("uptime_s", state.uptime_s);
  io.field("devices", state.devices, kMostStateDevices);
  io.field("counters", state.counters);
  io.field("unread", state.unread, 4096, kMostStateText);
}

HostState host_state(const std::string& root) {
  HostState state;
  StateReading reading(root, state);
  reading.gpus();
  reading.rdma_ports();
  reading.interfaces();
  reading.host();
  // Kept open for both readings: a driver that nobody else uses takes seconds to wake.
  const drivers::NvmlSession session;
  read_gpu_states(state);
  state.devices.resize(std::min(state.devices.size(), kMostStateDevices));
  state.counters = device_counters(~uint64_t{0}, root);
  return state;
}

}  // namespace collctl::base
