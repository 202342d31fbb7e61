#include "topology/detect/discover_pci.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/format.h"
#include "base/processors.h"
#include "base/whole_number.h"

namespace collctl::topology {
namespace {

constexpr size_t kMaxDevices = 16384;
constexpr size_t kMaxPeers = 4096;  // of all switches: real ones have a few each
constexpr size_t kMaxWords = 64;    // bytes of a link's speed in words
// Levels of elements in a file, less <system>, <cpu> and what a device holds.
constexpr int kMaxLevels = kMaxDepth - 6;

std::string name_of(const std::string& folder) {
  return folder.substr(folder.rfind('/') + 1);
}
std::string above(const std::string& folder) {
  return folder.substr(0, folder.rfind('/'));
}

// The number that the kernel's words for a speed begin with, in GT/s; 0 for "Unknown" and "".
double speed_number(const std::string& words) {
  double value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  return error == std::errc() && value > 0 && value < 1e6 ? value : 0;
}

// 0 and 255 mean that the kernel does not know.
int known_width(const std::optional<std::string>& text) {
  const int width = text ? std::atoi(text->c_str()) : 0;
  return width > 0 && width <= 32 ? width : 0;
}

// The lower of two, where 0 is unknown.
template <class T>
T lower(T a, T b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

}  // namespace

std::optional<BusId> PciWalk::device_of(const std::string& folder) {
  return parse_bus_id(name_of(folder));
}

std::optional<std::string> PciWalk::device_above(const std::string& folder) {
  for (std::string at = folder; !at.empty(); at = above(at))
    if (device_of(at)) return at;
  return std::nullopt;
}

std::optional<std::string> PciWalk::folder_of(BusId device) {
  const std::string name = bus_id_text(device), bus = name.substr(0, name.rfind(':'));
  // The bus's own folder lies in its bridge's, beside the devices.
  auto folder = files_.real_path("/sys/class/pci_bus/" + bus + "/../../" + name);
  if (!folder) folder = files_.real_path("/sys/bus/pci/devices/" + name);
  return folder && device_of(*folder) == device ? folder : std::nullopt;
}

std::optional<uint32_t> PciWalk::hex_file(const std::string& path, uint32_t maximum) {
  const auto text = files_.read(path);
  if (!text) return std::nullopt;
  const std::string_view digits(*text);
  const auto value =
      base::whole_number<uint32_t>(digits.substr(digits.starts_with("0x") ? 2 : 0), 16);
  return value && *value <= maximum ? value : std::nullopt;
}

std::optional<uint32_t> PciWalk::class_of(const std::string& folder) {
  return hex_file(folder + "/class", 0xffffff);
}

std::optional<std::string> PciWalk::words_of(const std::string& path) {
  auto text = files_.read(path);
  if (text && text->size() > kMaxWords) text.reset();
  return text;
}

void PciWalk::fill_link(Pci& pci, const std::string& folder) {
  // Both ends: the port is the folder above. A link's maximum counts, not its current speed: idle
  // devices lower their speed.
  const auto own_speed = words_of(folder + "/max_link_speed");
  const auto own_width = files_.read(folder + "/max_link_width");
  const std::string port = above(folder);
  const auto port_speed = device_of(port) ? words_of(port + "/max_link_speed") : std::nullopt;
  const auto port_width = device_of(port) ? files_.read(port + "/max_link_width") : std::nullopt;
  const double own = speed_number(own_speed.value_or("")),
               other = speed_number(port_speed.value_or(""));
  if (own > 0 || other > 0)
    pci.link_speed = lower(own, other) == own ? own_speed : port_speed;
  else
    pci.link_speed = own_speed ? own_speed : port_speed;
  const int width = lower(known_width(own_width), known_width(port_width));
  if (width > 0)
    pci.link_width = width;
  else if (own_width)
    pci.link_width = 0;
  if (own > 0) pci.state.speed_able = own_speed;
  if (known_width(own_width) > 0) pci.state.width_able = known_width(own_width);
  const auto speed_now = words_of(folder + "/current_link_speed");
  if (speed_now && speed_number(*speed_now) > 0) pci.state.speed_now = speed_now;
  if (const int now = known_width(files_.read(folder + "/current_link_width")); now > 0)
    pci.state.width_now = now;
}

void PciWalk::fill_peers(Pci& pci) {
  if (peers_ >= kMaxPeers) return;
  const std::string links =
      "/sys/kernel/pci_switch_link/virtual_switch_links/" + bus_id_text(pci.bus_id);
  for (const std::string& name : files_.list(links)) {
    if (++peers_ > kMaxPeers)
      return findings_.add({Severity::warning,
                            format("more than {} links between PCI switches", kMaxPeers),
                            bus_id_text(pci.bus_id), "the rest are ignored"});
    if (const auto peer = parse_bus_id(name)) pci.peers.push_back(*peer);
  }
}

void PciWalk::fill(Pci& pci, const std::string& folder) {
  pci.device_class = class_of(folder);
  pci.vendor = hex_file(folder + "/vendor", 0xffff);
  pci.device = hex_file(folder + "/device", 0xffff);
  pci.subsystem_vendor = hex_file(folder + "/subsystem_vendor", 0xffff);
  pci.subsystem_device = hex_file(folder + "/subsystem_device", 0xffff);
  fill_link(pci, folder);
  if (pci.vendor == 0x1000u) fill_peers(pci);  // Broadcom
}

Pci* PciWalk::add(const std::string& folder) {
  const BusId id = *device_of(folder);
  if (const auto known = found_.find(id); known != found_.end()) return &known->second.pci;
  // One level of two is skipped: a switch is an upstream port over downstream ports, and the port
  // of a device says nothing that the device does not.
  const std::string port = above(folder), upper = above(port);
  std::optional<BusId> parent;
  int level = 0;
  if (device_of(port) && device_of(upper)) {
    // Before the device itself, so that a tree which names a device twice cannot make a circle.
    if (add(upper) == nullptr) return nullptr;
    if (const auto known = found_.find(id); known != found_.end()) return &known->second.pci;
    parent = device_of(upper);
    level = found_[*parent].level + 1;
    if (level >= kMaxLevels) {
      findings_.add({Severity::warning, "a PCI device is below too many switches", bus_id_text(id),
                     "it is shown without the switches above that"});
      parent.reset();
      level = 0;
    }
  }
  if (found_.size() >= kMaxDevices) {
    findings_.add({Severity::warning, format("more than {} PCI devices", kMaxDevices),
                   bus_id_text(id), "the rest are ignored"});
    return nullptr;
  }
  Found& made = found_[id];
  made.pci.bus_id = id;
  made.parent = parent;
  made.level = level;
  made.folder = folder;
  fill(made.pci, folder);
  const auto numa = files_.read(folder + "/numa_node");
  const int node = numa && !numa->empty() ? std::atoi(numa->c_str()) : -1;
  made.numa = node >= 0 && node < base::kMaxNumaNodes ? node : -1;
  if (parent) below_[*parent].push_back(id);
  return &made.pci;
}

Pci* PciWalk::add_without_folder(BusId device) {
  if (found_.size() >= kMaxDevices && found_.count(device) == 0) return nullptr;
  Pci& pci = found_[device].pci;
  pci.bus_id = device;
  return &pci;
}

Pci PciWalk::assemble(const Found& found, int& numa) {
  Pci pci = found.pci;
  if (numa < 0) numa = found.numa;
  std::vector<BusId>& below = below_[pci.bus_id];
  std::sort(below.begin(), below.end());
  for (const BusId child : below) pci.children.push_back(assemble(found_[child], numa));
  return pci;
}

std::map<int, std::vector<Pci>> PciWalk::take() {
  std::map<int, std::vector<Pci>> by_node;
  for (const auto& [id, found] : found_) {
    if (found.parent) continue;
    int numa = -1;  // of the topmost that knows
    Pci pci = assemble(found, numa);
    by_node[numa].push_back(std::move(pci));
  }
  return by_node;
}

}  // namespace collctl::topology
