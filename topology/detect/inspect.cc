#include "topology/detect/inspect.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "topology/bandwidth.h"

namespace collctl::topology {
namespace {

struct Found {
  const Pci* pci;
  int host;
  size_t order;  // in the file
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

// Lanes, or 0 when they are unknown.
int lanes(const std::optional<int>& width) {
  return width && *width > 0 && *width <= 32 ? *width : 0;
}
int generation(const std::optional<std::string>& speed) {
  return speed ? pci_generation(*speed) : 0;
}

std::string device_text(const Pci& pci) {
  const char* kind = pci.gpu ? "the GPU" : !pci.nics.empty() ? "the NIC" : "the switch";
  if (!pci.gpu && pci.nics.empty() && pci.children.empty()) kind = "the device";
  return format("{} {}", kind, bus_id_text(pci.bus_id));
}

std::string where_text(const Pci& pci, const std::string& source) {
  return pci.at.line > 0 ? format("{}:{}", source, pci.at.line) : source;
}

constexpr const char* kReseat =
    "reseat the card or its riser, clean the contacts, check the kernel log for PCIe errors";

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
    for (const auto& [model, alike] : models_) {
      compare_links(alike);
      compare_ports(alike);
    }
    std::stable_sort(list_.begin(), list_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Oddity> oddities;
    for (auto& [order, oddity] : list_) oddities.push_back(std::move(oddity));
    return oddities;
  }

 private:
  // The widest GPU or NIC link at or below.
  double collect(const Pci& pci, int host) {
    const Found found{&pci, host, order_++};
    const Bandwidth own = pci_bandwidth(pci.link_speed, pci.link_width);
    const bool known = own.assumed.empty();
    check_link(found);
    if (pci.gpu || !pci.nics.empty()) {
      check_fabric(found);
      check_ports(found);
      if (pci.vendor && pci.device) models_[*pci.vendor << 16 | *pci.device].push_back(found);
      if (known) return own.gbps;
      // A link of unknown width has at least one lane.
      const Bandwidth least = pci_bandwidth(pci.link_speed, 1);
      return least.assumed.empty() ? least.gbps : 0;
    }
    double widest = 0;
    for (const Pci& child : pci.children) widest = std::max(widest, collect(child, host));
    if (known && own.gbps < widest)
      add(found, format("slower than the {:.4g} GB/s below", widest),
          format("a switch has an uplink of {:.4g} GB/s ({}), slower than the {:.4g} GB/s of a "
                 "device below it",
                 own.gbps, pci_link_text(pci), widest),
          "all paths to its CPU share this link; a virtual machine or BIOS may report it wrongly");
    return std::min(own.gbps, widest);
  }

  // Compares the link with what both its ends can do, and the slot with the card.
  void check_link(const Found& found) {
    const Pci& pci = *found.pci;
    const int able = lanes(pci.link_width), now = lanes(pci.state.width_now);
    if (now > 0 && now < able)
      add(found, format("x{} of x{}", now, able),
          format("{} runs at x{}; it and its slot can do x{}", device_text(pci), now, able),
          kReseat);
    if (const int card = lanes(pci.state.width_able); able > 0 && able < card)
      add(found, format("x{} slot for an x{} card", able, card),
          format("{} can do x{}, its slot only x{}", device_text(pci), card, able),
          "move the card to a wider slot, or set the slot to its full width in the BIOS");
    const int fast = generation(pci.link_speed), slow = generation(pci.state.speed_now);
    // An idle GPU lowers its speed by itself: see idle_links.
    if (slow > 0 && slow < fast && !pci.gpu)
      add(found, format("gen{} of gen{}", slow, fast),
          format("{} runs at gen{}; it and its slot can do gen{}", device_text(pci), slow, fast),
          format("check again under load; then {}", kReseat));
  }

  void check_fabric(const Found& found) {
    if (!found.pci->gpu) return;
    const int links = fabric_links(*found.pci), able = found.pci->gpu->links_able.value_or(0);
    // None at all: no bridge is fitted.
    if (links > 0 && links < able)
      add(found, format("{} of {} NVLinks", links, able),
          format("{} has {} of its {} NVLinks up", device_text(*found.pci), links, able),
          "check for links that are down: nvidia-smi nvlink --status");
  }

  void check_ports(const Found& found) {
    for (const Nic& nic : found.pci->nics) {
      const std::string down = nic.ports_down.value_or("");
      if (down.empty()) continue;
      add(found, "down: " + down,
          format("{} has ports without a link: {}", device_text(*found.pci), down),
          "check the cable and the switch's port; is the interface up, is a subnet manager "
          "there");
    }
  }

  void compare_links(const std::vector<Found>& alike) {
    if (alike.size() < 3) return;  // of two that differ nobody knows which is odd
    std::vector<double> rates;
    std::vector<int> links;
    for (const Found& one : alike) {
      const Bandwidth rate = pci_bandwidth(one.pci->link_speed, one.pci->link_width);
      if (rate.assumed.empty()) rates.push_back(rate.gbps);
      links.push_back(fabric_links(*one.pci));
    }
    const double usual_rate = majority(rates);
    const int usual_links = majority(links);
    for (const Found& one : alike) {
      const Bandwidth rate = pci_bandwidth(one.pci->link_speed, one.pci->link_width);
      if (rate.assumed.empty() && rate.gbps < usual_rate)
        add(one, format("others {:.4g} GB/s", usual_rate),
            format("{} has a PCI link of {:.4g} GB/s ({}), others of its kind {:.4g} GB/s",
                   device_text(*one.pci), rate.gbps, pci_link_text(*one.pci), usual_rate),
            "reseat the card or its cable, check the slot and the BIOS");
      const int have = fabric_links(*one.pci);
      // Said already where the device itself tells how many it has.
      const bool said = one.pci->gpu && have > 0 && have < one.pci->gpu->links_able.value_or(0);
      if (have < usual_links && !said)
        add(one, format("others {}", usual_links),
            format("{} has {} NVLinks, others of its kind {}", device_text(*one.pci), have,
                   usual_links),
            "check for links that are down: nvidia-smi nvlink --status");
    }
  }

  // The wire's speed, port against port of the same kind of card.
  void compare_ports(const std::vector<Found>& alike) {
    struct Port {
      const Found* at;
      const Net* net;
    };
    std::vector<Port> ports;
    std::vector<int64_t> speeds;
    for (const Found& one : alike)
      for (const Nic& nic : one.pci->nics)
        for (const Net& net : nic.nets)
          if (net.speed_mbps.value_or(0) > 0) {
            ports.push_back({&one, &net});
            speeds.push_back(*net.speed_mbps);
          }
    if (ports.size() < 3) return;
    const int64_t usual = majority(speeds);
    for (const Port& port : ports) {
      if (*port.net->speed_mbps >= usual) continue;
      const double here = double(*port.net->speed_mbps) / 1000, there = double(usual) / 1000;
      add(*port.at, format("others {:.4g} Gb/s", there),
          format("{} runs at {:.4g} Gb/s, others of its kind at {:.4g} Gb/s", port.net->name, here,
                 there),
          "check the cable and the speed of the switch's port", port.net->name);
    }
  }

  void add(const Found& at, std::string mark, std::string what, std::string remedy,
           std::string net = {}) {
    if (list_.size() >= kMaxFindings) return;
    list_.push_back(
        {at.order,
         {at.pci->bus_id,
          at.host,
          std::move(mark),
          {Severity::warning, std::move(what), where_text(*at.pci, source_), std::move(remedy)},
          std::move(net)}});
  }

  std::string source_;
  size_t order_ = 0;
  std::map<uint32_t, std::vector<Found>> models_;
  std::vector<std::pair<size_t, Oddity>> list_;
};

void find_idle(const Pci& pci, const std::string& source, std::vector<Finding>& to) {
  const int fast = generation(pci.link_speed), slow = generation(pci.state.speed_now);
  if (pci.gpu && slow > 0 && slow < fast && to.size() < kMaxFindings)
    to.push_back(
        {Severity::note,
         format("{} runs its PCI link at gen{} of gen{} now", device_text(pci), slow, fast),
         where_text(pci, source), "an idle GPU does that to save power"});
  for (const Pci& child : pci.children) find_idle(child, source, to);
}

}  // namespace

std::vector<Oddity> inspect(const System& system, const std::string& source) {
  return Inspector(source).inspect(system);
}

std::vector<Finding> idle_links(const System& system, const std::string& source) {
  std::vector<Finding> list;
  for (const Cpu& cpu : system.cpus)
    for (const Pci& pci : cpu.children) find_idle(pci, source, list);
  return list;
}

std::string pci_link_text(const Pci& pci) {
  const int known_generation = generation(pci.link_speed), width = lanes(pci.link_width);
  return format("gen{} x{}{}", known_generation > 0 ? known_generation : 3, width > 0 ? width : 16,
                known_generation > 0 && width > 0 ? "" : " (assumed)");
}

}  // namespace collctl::topology
