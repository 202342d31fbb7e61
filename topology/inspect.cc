#include "topology/inspect.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "topology/bandwidth.h"

namespace collctl::topology {
namespace {

// Names by vendor and device. Source: the PCI ID database (pci-ids.ucw.cz).
struct DeviceName {
  uint32_t vendor, device;
  const char* name;
};
constexpr DeviceName kNames[] = {{0x10de, 0x1db5, "V100"},          {0x10de, 0x20b0, "A100"},
                                 {0x10de, 0x20b2, "A100"},          {0x10de, 0x20b5, "A100 PCIe"},
                                 {0x10de, 0x2204, "RTX 3090"},      {0x10de, 0x2230, "RTX A6000"},
                                 {0x10de, 0x2324, "H800"},          {0x10de, 0x2330, "H100"},
                                 {0x10de, 0x2335, "H200"},          {0x10de, 0x2684, "RTX 4090"},
                                 {0x10de, 0x26ba, "L20"},           {0x10de, 0x2901, "B200"},
                                 {0x1002, 0x66a1, "MI50/60"},       {0x1002, 0x738c, "MI100"},
                                 {0x1002, 0x7408, "MI250X"},        {0x1002, 0x740c, "MI250"},
                                 {0x1002, 0x740f, "MI210"},         {0x1002, 0x74a0, "MI300A"},
                                 {0x1002, 0x74a1, "MI300X"},        {0x15b3, 0x1013, "ConnectX-4"},
                                 {0x15b3, 0x1017, "ConnectX-5"},    {0x15b3, 0x101b, "ConnectX-6"},
                                 {0x15b3, 0x101d, "ConnectX-6 Dx"}, {0x15b3, 0x1021, "ConnectX-7"},
                                 {0x15b3, 0x1023, "ConnectX-8"},    {0x15b3, 0xa2dc, "BlueField-3"},
                                 {0x1d0f, 0xefa0, "EFA"},           {0x1d0f, 0xefa1, "EFA"},
                                 {0x17db, 0x0501, "Slingshot"}};

struct Found {
  const Pci* pci;
  int host;
};

int fabric_links(const Pci& pci) {
  int links = 0;
  if (pci.gpu)
    for (const FabricLink& link : pci.gpu->links) links += link.count;
  return links;
}

// The value that most have; 0 when no value has more than half.
template <class T>
T majority(const std::vector<T>& values) {
  std::map<T, size_t> counts;
  for (const T& value : values) ++counts[value];
  for (const auto& [value, count] : counts)
    if (2 * count > values.size()) return value;
  return T{};
}

class Inspector {
 public:
  explicit Inspector(const std::string& source) : source_(source) {}

  std::vector<Oddity> inspect(const System& system) {
    std::map<uint64_t, int> hosts;
    for (const Cpu& cpu : system.cpus) {
      const int host =
          hosts.try_emplace(cpu.host_hash.value_or(0), int(hosts.size())).first->second;
      for (const Pci& pci : cpu.children) collect(pci, host);
    }
    for (const auto& [model, alike] : models_) compare(alike);
    std::stable_sort(list_.begin(), list_.end(),
                     [](const auto& a, const auto& b) { return a.first.line < b.first.line; });
    std::vector<Oddity> oddities;
    for (auto& [at, oddity] : list_) oddities.push_back(std::move(oddity));
    return oddities;
  }

 private:
  // The widest GPU or NIC link at or below.
  double collect(const Pci& pci, int host) {
    const double own = pci_bandwidth(pci.link_speed, pci.link_width).gbps;
    const bool known = pci_bandwidth(pci.link_speed, pci.link_width).assumed.empty();
    if (pci.gpu || !pci.nics.empty()) {
      if (pci.vendor && pci.device && known)
        models_[*pci.vendor << 16 | *pci.device].push_back({&pci, host});
      return known ? own : 0;
    }
    double widest = 0;
    for (const Pci& child : pci.children) widest = std::max(widest, collect(child, host));
    if (known && own < widest)
      add({&pci, host}, format("slower than the {:.4g} GB/s below", widest),
          format("a switch has an uplink of {:.4g} GB/s ({}), slower than the {:.4g} GB/s of a "
                 "device below it",
                 own, pci_link_text(pci), widest),
          "all ways to its CPU share this link; a virtual machine or BIOS may report it wrongly");
    return std::min(own, widest);
  }

  void compare(const std::vector<Found>& alike) {
    if (alike.size() < 3) return;  // of two that differ nobody knows which is odd
    std::vector<double> widths;
    std::vector<int> links;
    for (const Found& one : alike) {
      widths.push_back(pci_bandwidth(one.pci->link_speed, one.pci->link_width).gbps);
      links.push_back(fabric_links(*one.pci));
    }
    const double usual_width = majority(widths);
    const int usual_links = majority(links);
    for (size_t i = 0; i < alike.size(); ++i) {
      const Found& one = alike[i];
      const std::string name =
          format("{} {}", one.pci->gpu ? "the GPU" : "the NIC", bus_id_text(one.pci->bus_id));
      if (widths[i] < usual_width)
        add(one, format("others {:.4g} GB/s", usual_width),
            format("{} has a PCI link of {:.4g} GB/s ({}), others of its kind {:.4g} GB/s", name,
                   widths[i], pci_link_text(*one.pci), usual_width),
            "reseat the card or its cable, look at the slot and the BIOS");
      if (links[i] < usual_links)
        add(one, format("others {}", usual_links),
            format("{} has {} NVLinks, others of its kind {}", name, links[i], usual_links),
            "look for links that are down: nvidia-smi nvlink --status");
    }
  }

  void add(const Found& at, std::string mark, std::string what, std::string remedy) {
    if (list_.size() >= kMaxFindings) return;
    const int line = at.pci->at.line;
    list_.push_back({at.pci->at,
                     {at.pci->bus_id,
                      at.host,
                      std::move(mark),
                      {Severity::warning, std::move(what),
                       line > 0 ? format("{}:{}", source_, line) : source_, std::move(remedy)}}});
  }

  std::string source_;
  std::map<uint32_t, std::vector<Found>> models_;
  std::vector<std::pair<Place, Oddity>> list_;
};

}  // namespace

std::vector<Oddity> inspect(const System& system, const std::string& source) {
  return Inspector(source).inspect(system);
}

std::string pci_link_text(const Pci& pci) {
  const int generation = pci.link_speed ? pci_generation(*pci.link_speed) : 0;
  const int width = pci.link_width.value_or(0);
  const bool known = width > 0 && width <= 32;
  return format("gen{} x{}{}", generation > 0 ? generation : 3, known ? width : 16,
                generation > 0 && known ? "" : " (assumed)");
}

std::string pci_device_name(const Pci& pci) {
  for (const DeviceName& row : kNames)
    if (pci.vendor == row.vendor && pci.device == row.device) return row.name;
  return "";
}

}  // namespace collctl::topology
