#include "base/host_devices.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/drivers/nvml.h"
#include "base/fd.h"
#include "base/first_line.h"
#include "base/format.h"
#include "base/host_files.h"
#include "base/interface_choice.h"
#include "base/whole_number.h"

namespace collctl::base {
namespace {

namespace fs = std::filesystem;

// The entries of a folder, sorted; none when it is not there.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> list;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    list.push_back(at->path());
  std::ranges::sort(list);
  return list;
}

int prefix_bits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int bits = 0;
  if (mask->sa_family == AF_INET)
    bits = std::popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
  if (mask->sa_family == AF_INET6)
    for (const uint8_t byte : reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr)
      bits += std::popcount(byte);
  return bits;
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  if (address->sa_family == AF_INET6)
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (bytes == nullptr) return {};
  return inet_ntop(address->sa_family, bytes, text, sizeof text) != nullptr ? text : "";
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return request;
}

// By ioctl, not from /sys: that may be mounted in another network namespace.
int mtu_of(int asking, const std::string& name) {
  ifreq request = request_for(name);
  return ::ioctl(asking, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

int64_t speed_of(int asking, const std::string& name) {
  // The modes that follow the head are not of interest, but the kernel writes them. The first call
  // asks how many words each of the three sets has.
  constexpr int kMostWords = 127;
  std::array<uint32_t, sizeof(ethtool_link_settings) / 4 + 3 * kMostWords> buffer{};
  auto* settings = reinterpret_cast<ethtool_link_settings*>(buffer.data());
  ifreq request = request_for(name);
  request.ifr_data = reinterpret_cast<char*>(settings);
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  if (::ioctl(asking, SIOCETHTOOL, &request) != 0) return 0;
  const int words = -settings->link_mode_masks_nwords;
  if (words <= 0 || words > kMostWords) return 0;
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  settings->link_mode_masks_nwords = int8_t(words);
  if (::ioctl(asking, SIOCETHTOOL, &request) != 0) return 0;
  return settings->speed == uint32_t(SPEED_UNKNOWN) ? 0 : int64_t(settings->speed);
}

}  // namespace

bool is_inner_interface(std::string_view name) {
  return std::ranges::any_of(kInnerInterfaces,
                             [&](std::string_view inner) { return name.starts_with(inner); });
}

std::vector<NetInterface> net_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  const Fd asking(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<NetInterface> interfaces;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    auto found = std::ranges::find(interfaces, at->ifa_name, &NetInterface::name);
    if (found == interfaces.end()) {
      found = interfaces.emplace(interfaces.end());
      found->name = at->ifa_name;
      found->up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_RUNNING) != 0;
      found->loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
      found->mtu = mtu_of(asking.get(), found->name);
      found->speed_mbps = speed_of(asking.get(), found->name);
    }
    if (at->ifa_addr == nullptr) continue;
    const std::string text = address_text(at->ifa_addr);
    if (!text.empty()) found->addresses.push_back({text, prefix_bits(at->ifa_netmask)});
  }
  ask_shared_subnets(interfaces);
  judge_interfaces(interfaces, interface_links());
  return interfaces;
}

std::vector<RdmaPort> rdma_ports() {
  std::vector<RdmaPort> ports;
  for (const fs::path& device : entries("/sys/class/infiniband"))
    for (const fs::path& port : entries(device / "ports"))
      ports.push_back({.device = device.filename(),
                       .port = std::atoi(port.filename().c_str()),
                       .state = host_files::word_of(port / "state"),
                       .rate = first_line(port / "rate"),
                       .link = first_line(port / "link_layer")});
  return ports;
}

int rdma_numa_node(const std::string& device) {
  const std::string text = first_line("/sys/class/infiniband/" + device + "/device/numa_node");
  return text.empty() ? -1 : std::atoi(text.c_str());
}

bool rdma_gid_is_roce_v2(const std::string& device, int port, int index) {
  return first_line("/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) +
                    "/gid_attrs/types/" + std::to_string(index)) == "RoCE v2";
}

std::string gpu_peer_memory_module(const std::string& root) {
  constexpr std::pair<const char*, const char*> kPlaces[] = {
      {"nvidia_peermem", "/sys/module/nvidia_peermem/version"},
      {"nv_peer_mem", "/sys/kernel/mm/memory_peers/nv_mem/version"},
      {"nv_peer_mem (nc)", "/sys/kernel/mm/memory_peers/nv_mem_nc/version"}};
  for (const auto& [name, file] : kPlaces)
    if (const std::string version = first_line(root + file); !version.empty())
      return std::string(name) + " " + version;
  return "";
}

NvidiaFacts nvidia_facts() {
  NvidiaFacts facts;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ..."
  const std::string version = first_line("/proc/driver/nvidia/version");
  for (size_t at = version.find_first_of("0123456789"); at != std::string::npos;) {
    const size_t end = std::min(version.find(' ', at), version.size());
    const std::string word = version.substr(at, end - at);
    const bool number = word.find('.') != std::string::npos &&
                        word.find_first_not_of("0123456789.") == std::string::npos;
    if (number && (at == 0 || version[at - 1] == ' ')) {
      facts.driver = word;
      break;
    }
    at = version.find_first_of("0123456789", end);
  }
  for (const fs::path& gpu : entries("/proc/driver/nvidia/gpus")) {
    std::ifstream in(gpu / "information");
    std::string line, model = "GPU";
    while (std::getline(in, line))
      if (line.compare(0, 6, "Model:") == 0)
        model = line.substr(std::min(line.find_first_not_of(" \t", 6), line.size()));
    facts.gpus.push_back(model);
  }
  facts.on_pci = nvidia_pci_devices();
  return facts;
}

std::vector<NvidiaGpu> nvidia_gpus_here(const std::string& root) {
  std::vector<NvidiaGpu> gpus;
  // Sandboxes show what is on PCI by the driver's library alone.
  const bool has_library = root.empty() && drivers::nvml().missing.empty();
  // The folders are named by bus id, and listed in order.
  for (const fs::path& folder : entries(root + "/proc/driver/nvidia/gpus")) {
    NvidiaGpu gpu{.bus_id = folder.filename(), .uuid = "", .numa = -1};
    std::ifstream in(folder / "information");
    std::string line, minor;
    const auto take = [&](const std::string& key, std::string& to) {
      if (line.rfind(key, 0) == 0)
        to = line.substr(std::min(line.find_first_not_of(" \t", key.size()), line.size()));
    };
    while (std::getline(in, line)) {
      take("GPU UUID:", gpu.uuid);
      take("Device Minor:", minor);
    }
    std::error_code ignored;  // a file that cannot be looked at is not here
    if (!minor.empty() && !fs::exists(root + "/dev/nvidia" + minor, ignored)) continue;
    const std::string on_pci = root + "/sys/bus/pci/devices/" + gpu.bus_id;
    if (!has_library && !fs::exists(on_pci, ignored)) continue;
    const std::string numa = first_line(on_pci + "/numa_node");
    if (!numa.empty()) gpu.numa = std::atoi(numa.c_str());
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// `which`: "current", "max".
static PciLink link_in(const fs::path& folder, const char* which) {
  const auto value = [&](const char* what) {
    return host_files::value_of(folder / format("{}_link_{}", which, what));
  };
  const int lanes = whole_number(value("width")).value_or(0);
  const double rate = std::strtod(value("speed").c_str(), nullptr);  // "32.0 GT/s PCIe"
  return {.lanes = lanes >= 1 && lanes <= 32 ? lanes : 0,
          .GTps = rate > 0 && rate < 1e3 ? rate : 0};
}

PciLink pci_link_at(const std::string& folder) {
  return link_in(folder, "current");
}

PciLink best_pci_link_at(const std::string& folder) {
  const auto chain = host_files::way_up(folder);
  if (chain.size() < 2) return {};
  const PciLink own = link_in(chain[0], "max"), above = link_in(chain[1], "max");
  return {.lanes = std::min(own.lanes, above.lanes), .GTps = std::min(own.GTps, above.GTps)};
}

PciLink best_pci_link(const std::string& bus_id) {
  return host_files::is_bus_id(bus_id) ? best_pci_link_at("/sys/bus/pci/devices/" + bus_id)
                                       : PciLink{};
}

PciLink pci_link(const std::string& bus_id) {
  return host_files::is_bus_id(bus_id) ? pci_link_at("/sys/bus/pci/devices/" + bus_id) : PciLink{};
}

int nvidia_pci_devices(const std::string& root) {
  int count = 0;
  for (const fs::path& device : entries(root + "/sys/bus/pci/devices")) {
    if (first_line(device / "vendor") != "0x10de") continue;
    if (!first_line(device / "class").starts_with("0x03")) continue;
    std::error_code unbound;  // then the name is empty
    const std::string driver = fs::read_symlink(device / "driver", unbound).filename();
    if (driver != "vfio-pci" && driver != "pci-stub") ++count;
  }
  return count;
}

}  // namespace collctl::base
