#include "topology/detect/assume.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/format.h"
#include "topology/findings.h"
#include "topology/pci_use.h"

namespace collctl::topology {
namespace {

constexpr const char* kGen3 = "8.0 GT/s PCIe";
constexpr const char* kGen4 = "16.0 GT/s PCIe";
constexpr const char* kGen5 = "32.0 GT/s PCIe";
// Source: NVIDIA's data sheets of the GPUs (compute capability, NVLinks, PCI Express) and of HGX
// and DGX systems (NVSwitch, network for each GPU); PCI ids: the PCI ID database.
constexpr AssumedModel kModels[] = {
    {"v100", "V100", 70, 6, false, 100, 0x1db5, kGen3},
    {"a100", "A100", 80, 12, true, 200, 0x20b2, kGen4},
    {"a100-pcie", "A100 PCIe", 80, 0, false, 100, 0x20b5, kGen4},
    {"a800", "A800", 80, 8, true, 200, 0x20f3, kGen4},
    {"h100", "H100", 90, 18, true, 400, 0x2330, kGen5},
    {"h100-pcie", "H100 PCIe", 90, 0, false, 200, 0x2331, kGen5},
    {"h800", "H800", 90, 8, true, 400, 0x2324, kGen5},
    {"h200", "H200", 90, 18, true, 400, 0x2335, kGen5},
    {"b200", "B200", 100, 18, true, 400, 0x2901, kGen5},
    {"l40s", "L40S", 89, 0, false, 200, 0x26b9, kGen4},
    {"l4", "L4", 89, 0, false, 100, 0x27b8, kGen4},
    {"a10g", "A10G", 86, 0, false, 100, 0x2237, kGen4},
    {"a10", "A10", 86, 0, false, 100, 0x2236, kGen4},
    {"t4", "T4", 75, 0, false, 100, 0x1eb8, kGen3},
};

// Network devices whose speed their PCI ids tell, 1e9 bits/s. Source: product briefs of the makers.
struct NicRow {
  uint32_t vendor, device;
  int gbps;
};
constexpr NicRow kNics[] = {{0x1d0f, 0xefa0, 100}, {0x1d0f, 0xefa1, 100}, {0x15b3, 0x1017, 100},
                            {0x15b3, 0x101b, 200}, {0x15b3, 0x1021, 400}, {0x15b3, 0x1023, 800}};

constexpr uint32_t kClassNic = 0x020000;
constexpr size_t kByEight = 8;
constexpr int64_t kInventedDomain = 0xfffe;  // of devices that the file does not list

class Assumer {
 public:
  Assumer(System system, const AssumedModel& model, std::optional<double> nic_gbps,
          const std::string& source)
      : model_(model), nic_gbps_(nic_gbps), source_(source), findings_(source) {
    made_.system = std::move(system);
  }

  Result<Assumed> run() {
    each([&](Pci& pci) { count(pci); });
    if (gpus_ == 0) COLL_TRY(one_below_each_switch());
    each([&](Pci& pci) { add_gpu(pci); });
    each([&](Pci& pci) { add_nic(pci); });
    made_.findings = findings_.take();
    return std::move(made_);
  }

 private:
  void each(const std::function<void(Pci&)>& act) {
    for (Cpu& cpu : made_.system.cpus) visit(cpu.children, act);
  }
  static void visit(std::vector<Pci>& list, const std::function<void(Pci&)>& act) {
    for (Pci& pci : list) {
      act(pci);
      visit(pci.children, act);
    }
  }
  void note(std::string what, const Place& at, std::string remedy = {}) {
    findings_.add({Severity::note, std::move(what), findings_.where(at), std::move(remedy)});
  }

  static bool is_leaf(const Pci& pci) {
    return !pci.gpu && pci.nics.empty() && pci.children.empty();
  }
  static bool wants_gpu(const Pci& pci) { return is_leaf(pci) && is_gpu_class(pci.device_class); }
  // A device without a class is a NIC only where a GPU had to be invented beside it.
  bool wants_nic(const Pci& pci) const {
    return is_leaf(pci) && (is_nic_class(pci.device_class) ||
                            (!pci.device_class && beside_invented_.count(pci.bus_id) != 0));
  }

  void count(const Pci& pci) {
    if (pci.gpu || wants_gpu(pci)) ++gpus_;
    if (!pci.nics.empty() || wants_nic(pci)) ++nics_;
    addresses_.insert(pci.bus_id);
    if (!pci.gpu) return;
    devs_.taken.insert(pci.gpu->dev.value_or(-1));
    ranks_.taken.insert(pci.gpu->rank.value_or(-1));
  }

  Status one_below_each_switch() {
    std::vector<Pci*> switches;
    each([&](Pci& pci) {
      if (std::any_of(pci.children.begin(), pci.children.end(), is_leaf)) switches.push_back(&pci);
    });
    if (switches.size() != kByEight || !model_.nvswitch)
      return Error(
          ErrorCode::usage,
          format("{}: no device of class GPU, and {} switches: no place for {}", source_,
                 switches.size(), model_.name),
          "set class=\"0x030200\" on the <pci> elements that are GPUs and class=\"0x020000\" on "
          "those that are NICs; otherwise only files with exactly eight switches can be "
          "completed, for models with NVSwitch");
    std::vector<BusId> addresses;
    for (const Pci* above : switches) {
      addresses.push_back(free_address());
      note(format("the file lists no GPUs; {} is assumed below each of its eight switches",
                  model_.title),
           above->at);
    }
    // Inner switches first: a new child moves those that are there.
    for (size_t i = switches.size(); i-- > 0;) {
      Pci& above = *switches[i];
      for (const Pci& beside : above.children) {
        if (!beside.device_class && is_leaf(beside)) ++nics_;
        beside_invented_.insert(beside.bus_id);
      }
      Pci gpu;
      gpu.bus_id = addresses[i];
      gpu.device_class = kClassGpu;
      gpu.link_speed = model_.pci_speed;
      gpu.link_width = 16;
      gpu.at = above.at;
      above.children.insert(above.children.begin(), std::move(gpu));
      ++gpus_;
    }
    return {};
  }

  BusId free_address() {
    BusId id{kInventedDomain << 20};
    while (!addresses_.insert(id).second) id.value += 1 << 12;
    return id;
  }

  // Numbers that are taken, and below which all are.
  struct Numbers {
    std::set<int> taken;
    int next = 0;
    int take_free() {
      while (!taken.insert(next).second) ++next;
      return next;
    }
  };

  void add_gpu(Pci& pci) {
    if (wants_gpu(pci)) {
      Gpu gpu;
      gpu.at = pci.at;
      gpu.dev = devs_.take_free();
      gpu.rank = ranks_.take_free();
      gpu.assumed = true;
      pci.gpu = std::move(gpu);
      if (!pci.vendor) pci.vendor = kNvidia;
      if (!pci.device) pci.device = model_.device;
      note(format("a device of class GPU is assumed to be {}", model_.title), pci.at);
    }
    if (!pci.gpu) return;
    Gpu& gpu = *pci.gpu;
    if (gpu.gcn || gpu.sm.value_or(model_.sm) != model_.sm) {
      findings_.add(
          {Severity::warning,
           format("a GPU is {}, not {} (sm {}): left as it is",
                  gpu.gcn ? "AMD's" : format("of sm {}", *gpu.sm), model_.title, model_.sm),
           findings_.where(pci.at), "--assume a model that matches the file"});
      return;
    }
    if (!gpu.sm) gpu.sm = model_.sm;
    if (!gpu.gdr) gpu.gdr = true;  // all of the table can
    if (!gpu.name && gpu.assumed) gpu.name = std::string("NVIDIA ") + model_.title;
    add_links(gpu, pci.at);
  }

  void add_links(Gpu& gpu, const Place& at) {
    if (!gpu.links.empty() || model_.nvlinks == 0) return;
    if (!model_.nvswitch) {
      note(format("{} has {} NVLinks directly to other GPUs; the file does not say to which, so "
                  "none are assumed",
                  model_.title, model_.nvlinks),
           at, "add <nvlink> elements to the file");
      return;
    }
    FabricLink link;
    link.target = kInvisibleTarget;
    link.count = model_.nvlinks;
    link.target_class = kClassSwitch;
    link.at = at;
    gpu.links.push_back(std::move(link));
    gpu.links_able = model_.nvlinks;
    note(format("{} NVLinks to NVSwitches are assumed", model_.nvlinks), at);
  }

  double speed_of(const Pci& pci) const {
    if (nic_gbps_) return *nic_gbps_;
    for (const NicRow& row : kNics)
      if (pci.vendor == row.vendor && pci.device == row.device) return row.gbps;
    const double share =
        double(model_.nic_gbps) * double(gpus_) / double(std::max(nics_, size_t{1}));
    return std::min(share, double(model_.nic_gbps));
  }

  void add_nic(Pci& pci) {
    if (!wants_nic(pci)) return;
    if (net_devs_.taken.empty()) number_nets();
    const double gbps = speed_of(pci);
    Net net;
    net.at = pci.at;
    net.dev = net_devs_.take_free();
    net.name = format("assumed{}", *net.dev);
    net.speed_mbps = std::llround(gbps * 1000);
    net.port = 1;
    net.guid = uint64_t(pci.bus_id.value);
    net.gdr = true;
    net.unknown.push_back({"assumed", "1"});
    Nic nic;
    nic.at = pci.at;
    nic.nets.push_back(std::move(net));
    pci.nics.push_back(std::move(nic));
    if (!pci.device_class) pci.device_class = kClassNic;
    note(format("a device of class NIC is assumed to be a network device of {:.6g} Gb/s", gbps),
         pci.at, nic_gbps_ ? "" : "--assume-nic sets another speed");
  }

  void number_nets() {
    const auto take = [&](const std::vector<Nic>& nics) {
      for (const Nic& nic : nics)
        for (const Net& net : nic.nets) net_devs_.taken.insert(net.dev.value_or(-1));
    };
    net_devs_.taken.insert(-1);
    for (const Cpu& cpu : made_.system.cpus) take(cpu.nics);
    each([&](const Pci& pci) { take(pci.nics); });
  }

  Assumed made_;
  const AssumedModel& model_;
  std::optional<double> nic_gbps_;
  std::string source_;
  FindingList findings_;
  size_t gpus_ = 0, nics_ = 0;
  Numbers devs_, ranks_, net_devs_;
  std::set<BusId> addresses_, beside_invented_;
};

}  // namespace

std::span<const AssumedModel> assumed_models() {
  return kModels;
}

Result<Assumed> assume(System system, const std::string& model, std::optional<double> nic_gbps,
                       const std::string& source) {
  std::string names;
  for (const AssumedModel& row : kModels) {
    if (model == row.name) return Assumer(std::move(system), row, nic_gbps, source).run();
    names += std::string(names.empty() ? "" : ", ") + row.name;
  }
  return Error(ErrorCode::usage, format("--assume {}: expected one of {}", model, names));
}

}  // namespace collctl::topology
