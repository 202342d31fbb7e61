#include "base/host_rdma.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "base/format.h"
#include "base/host_devices.h"

namespace collctl::base {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostText = 256;      // of a file that holds one value
constexpr size_t kConfigBytes = 4096;  // of a PCI device
constexpr size_t kMostDevices = 4096;  // of the PCI bus

std::string head_of(const fs::path& path, size_t most) {
  std::ifstream in(path, std::ios::binary);
  std::string text(most, '\0');
  in.read(text.data(), std::streamsize(most));
  text.resize(size_t(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

// The first line, of characters that a terminal may see.
std::string value_of(const fs::path& path) {
  std::string text = head_of(path, kMostText);
  text.resize(std::min(text.size(), text.find('\n')));
  for (char& c : text)
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

// "4: ACTIVE" -> "ACTIVE"
std::string word_of(const fs::path& path) {
  const std::string text = value_of(path);
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::optional<int> number_of(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<fs::path> entries(const fs::path& folder, size_t most) {
  std::vector<fs::path> list;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && list.size() < most;
       at.increment(error))
    list.push_back(at->path());
  std::sort(list.begin(), list.end());
  return list;
}

// Those of a folder whose names are numbers, by value.
std::vector<int> numbered(const fs::path& folder, size_t most) {
  std::vector<int> numbers;
  for (const fs::path& path : entries(folder, most))
    if (const auto number = number_of(path.filename()); number && *number >= 0)
      numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// "0000:18:00.0"
bool is_bus_id(const std::string& text) {
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.' &&
         text.find_first_not_of("0123456789abcdef:.") == std::string::npos;
}

// The device itself and all bridges above it, lowest first; empty when it is not on the PCI bus.
std::vector<fs::path> way_up(const fs::path& device) {
  std::error_code error;
  fs::path at = fs::canonical(device, error);
  std::vector<fs::path> chain;
  while (!error && chain.size() < 64 && is_bus_id(at.filename())) {
    chain.push_back(at);
    at = at.parent_path();
  }
  return chain;
}

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
  device.numa = number_of(value_of(folder / "device" / "numa_node")).value_or(-1);
  device.firmware = value_of(folder / "fw_ver");
  device.board = value_of(folder / "board_id");
  for (const fs::path& interface : entries(folder / "device" / "net", 64))
    device.interfaces.push_back(interface.filename());
  for (const int number : numbered(folder / "ports", kMostRdmaPorts)) {
    const fs::path port = folder / "ports" / std::to_string(number);
    RdmaPortDetail detail{.port = number,
                          .state = word_of(port / "state"),
                          .physical = word_of(port / "phys_state"),
                          .rate = value_of(port / "rate"),
                          .link = value_of(port / "link_layer"),
                          .gids = {}};
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
  for (const fs::path& folder : entries(root + "/sys/class/infiniband", kMostRdmaDevices))
    devices.push_back(device_at(folder));
  return devices;
}

GpuDirectFacts gpu_direct_facts(const std::string& root) {
  GpuDirectFacts facts;
  BusFacts bus(facts);
  for (const fs::path& device : entries(root + "/sys/bus/pci/devices", kMostDevices)) {
    const std::string kind = value_of(device / "class");
    const bool display = kind.rfind("0x0300", 0) == 0 || kind.rfind("0x0302", 0) == 0;
    if (!display || value_of(device / "vendor") != "0x10de") continue;
    const auto chain = way_up(device);
    if (chain.empty()) continue;
    ++facts.gpus;
    bus.add(chain);
  }
  for (const fs::path& folder : entries(root + "/sys/class/infiniband", kMostRdmaDevices)) {
    const auto chain = way_up(folder / "device");
    if (chain.empty()) continue;
    ++facts.rdma_devices;
    bus.add(chain);
  }
  facts.kernel = value_of(root + "/proc/sys/kernel/osrelease");
  facts.driver = value_of(root + "/sys/module/nvidia/version");
  facts.open_driver =
      head_of(root + "/proc/driver/nvidia/version", kMostText).find("Open Kernel Module") !=
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
