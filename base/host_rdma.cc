#include "base/host_rdma.h"

#include <arpa/inet.h>

#include <charconv>
#include <set>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_files.h"
#include "base/whole_number.h"

namespace collctl::base {
namespace {

using namespace host_files;

constexpr size_t kConfigBytes = 4096;  // of a PCI device

std::vector<RdmaGid> gids_of(const fs::path& port, bool infiniband) {
  std::vector<RdmaGid> gids;
  for (const int index : numbered(port / "gids", kMostRdmaGids)) {
    const std::string number = std::to_string(index);
    in6_addr address{};
    if (inet_pton(AF_INET6, value_of(port / "gids" / number).c_str(), &address) != 1 ||
        IN6_IS_ADDR_UNSPECIFIED(&address))
      continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (inet_ntop(AF_INET6, &address, text, sizeof text) == nullptr) continue;
    std::string type = value_of(port / "gid_attrs" / "types" / number);
    // The kernel has one name for both.
    if (type == "IB/RoCE v1") type = infiniband ? "IB" : "RoCE v1";
    gids.push_back({index, type, text, value_of(port / "gid_attrs" / "ndevs" / number)});
  }
  return gids;
}

RdmaDevice device_at(const fs::path& folder) {
  RdmaDevice device;
  device.name = folder.filename();
  const auto chain = way_up(folder / "device");
  if (!chain.empty()) device.bus_id = chain.front().filename();
  device.numa = whole_number(value_of(folder / "device" / "numa_node")).value_or(-1);
  device.firmware = value_of(folder / "fw_ver");
  device.board = value_of(folder / "board_id");
  for (const fs::path& interface : entries_of(folder / "device" / "net", 64))
    device.interfaces.push_back(interface.filename());
  for (const int number : numbered(folder / "ports", kMostRdmaPorts)) {
    const fs::path port = folder / "ports" / std::to_string(number);
    RdmaPortDetail detail{.port = number,
                          .state = word_of(port / "state"),
                          .physical = word_of(port / "phys_state"),
                          .rate = value_of(port / "rate"),
                          .link = value_of(port / "link_layer")};
    detail.gids = gids_of(port, detail.link == "InfiniBand");
    device.ports.push_back(std::move(detail));
  }
  return device;
}

// Bits of the ACS control register (PCI Express, 7.7.11.3): request and completion redirect, and
// egress control.
constexpr uint16_t kAcsRedirect = 0x4 | 0x8 | 0x20;
constexpr uint16_t kAcsCapability = 0x000d;

uint32_t word_at(const std::string& config, size_t at) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word |= uint32_t(uint8_t(config[at + i])) << 8 * i;
  return word;
}

enum class Acs : uint8_t { unknown, direct, redirects };
// Without root the kernel hands out the first 64 bytes only.
Acs acs_of(const fs::path& bridge) {
  const std::string config = head_of(bridge / "config", kConfigBytes);
  if (config.size() < 0x104) return Acs::unknown;
  // A list in the extended space; each link must lead on, so that it ends.
  size_t at = 0x100;
  for (int steps = 0; steps < 64 && at >= 0x100 && at + 8 <= config.size(); ++steps) {
    const uint32_t head = word_at(config, at);
    if ((head & 0xffff) == kAcsCapability)
      return (word_at(config, at + 4) >> 16 & kAcsRedirect) != 0 ? Acs::redirects : Acs::direct;
    at = head >> 20;
  }
  return Acs::direct;
}

// IOMMU and bridges between devices of the PCI bus.
class BusFacts {
 public:
  explicit BusFacts(GpuDirectFacts& facts) : facts_(facts) { facts_.acs_known = true; }

  void add(const std::vector<fs::path>& chain) {
    const std::string type = value_of(chain.front() / "iommu_group" / "type");
    if (facts_.iommu.empty() || type.rfind("DMA", 0) == 0) facts_.iommu = type;
    for (size_t i = 1; i < chain.size(); ++i) {
      if (!seen_.insert(chain[i]).second) continue;
      const Acs acs = acs_of(chain[i]);
      facts_.acs_known = facts_.acs_known && acs != Acs::unknown;
      if (acs == Acs::redirects) facts_.redirecting.push_back(chain[i].filename());
    }
  }

 private:
  GpuDirectFacts& facts_;
  std::set<fs::path> seen_;
};

// "5.15.0-91-generic" -> 5, 15
bool kernel_is_at_least(const std::string& release, int major, int minor) {
  int found[2] = {0, 0};
  const char *at = release.data(), *const end = at + release.size();
  for (int& part : found) {
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc()) return false;
    at = next < end && *next == '.' ? next + 1 : next;
  }
  return found[0] > major || (found[0] == major && found[1] >= minor);
}

}  // namespace

std::vector<RdmaDevice> rdma_devices(const std::string& root) {
  std::vector<RdmaDevice> devices;
  for (const fs::path& folder : entries_of(root + "/sys/class/infiniband", kMostRdmaDevices))
    devices.push_back(device_at(folder));
  return devices;
}

GpuDirectFacts gpu_direct_facts(const std::string& root) {
  GpuDirectFacts facts;
  BusFacts bus(facts);
  for (const fs::path& device : entries_of(root + "/sys/bus/pci/devices", kMostDevices)) {
    const std::string kind = value_of(device / "class");
    const bool display = kind.rfind("0x0300", 0) == 0 || kind.rfind("0x0302", 0) == 0;
    if (!display || value_of(device / "vendor") != "0x10de") continue;
    const auto chain = way_up(device);
    if (chain.empty()) continue;
    ++facts.gpus;
    bus.add(chain);
  }
  for (const fs::path& folder : entries_of(root + "/sys/class/infiniband", kMostRdmaDevices)) {
    const auto chain = way_up(folder / "device");
    if (chain.empty()) continue;
    ++facts.rdma_devices;
    bus.add(chain);
  }
  facts.kernel = value_of(root + "/proc/sys/kernel/osrelease");
  facts.driver = value_of(root + "/sys/module/nvidia/version");
  facts.open_driver =
      head_of(root + "/proc/driver/nvidia/version", kMostValue).find("Open Kernel Module") !=
      std::string::npos;
  facts.module = gpu_peer_memory_module(root);
  return facts;
}

GpuDirectAdvice judge_gpu_direct(const GpuDirectFacts& facts) {
  GpuDirectAdvice advice;
  advice.applies = facts.gpus > 0 && facts.rdma_devices > 0;
  if (!advice.applies) return advice;
  const bool kernel = kernel_is_at_least(facts.kernel, 5, 12);
  if (facts.open_driver && kernel) advice.by = "DMA-BUF";
  if (advice.by.empty() && !facts.driver.empty()) advice.by = facts.module;
  advice.possible = !advice.by.empty();
  const auto add = [&](bool prevents, std::string what, std::string remedy) {
    advice.reasons.push_back({std::move(what), std::move(remedy), prevents});
  };
  if (facts.driver.empty()) {
    add(true, "the NVIDIA driver is not loaded", "modprobe nvidia; install it where it is missing");
  } else if (!advice.possible) {
    add(true, "no kernel module lets RDMA devices access GPU memory",
        "modprobe nvidia_peermem, which is part of the NVIDIA driver");
    add(true,
        facts.open_driver
            ? format("no DMA-BUF for GPU memory: the kernel is {}, 5.12 or newer is required",
                     facts.kernel)
            : format("no DMA-BUF for GPU memory: driver {} does not use the open kernel modules",
                     facts.driver),
        facts.open_driver
            ? "use a newer kernel"
            : "install the open kernel modules (driver 515 or newer, Turing GPUs or newer)");
  }
  if (facts.iommu.rfind("DMA", 0) == 0)
    add(false,
        format("the IOMMU translates (groups of type {}): traffic between devices goes through the "
               "CPU, or hangs",
               facts.iommu),
        "add iommu=pt to the kernel command line; in a virtual machine it is up to the host");
  if (!facts.redirecting.empty()) {
    std::string bridges;
    for (size_t i = 0; i < facts.redirecting.size() && i < 4; ++i)
      bridges += (i == 0 ? "" : ", ") + facts.redirecting[i];
    if (facts.redirecting.size() > 4)
      bridges += format(" and {} more", facts.redirecting.size() - 4);
    add(false,
        format("ACS on PCI bridges sends traffic between devices through the CPU: {}", bridges),
        "on bare metal, turn it off in the BIOS or with setpci -s BRIDGE ECAP_ACS+6.w=0000");
  } else if (!facts.acs_known) {
    add(false, "cannot tell whether ACS redirects traffic between devices",
        "run as root to read the bridges' registers");
  }
  return advice;
}

}  // namespace collctl::base
