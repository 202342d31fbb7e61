// GPUs and their NVLinks.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "topology/detect/discover_parts.h"
#include "topology/pci_use.h"

namespace collctl::topology {
namespace {

constexpr uint32_t kAmd = 0x1002;
constexpr size_t kMaxNoP2p = 200;  // so that they fit into one attribute of a file

class GpuFinder {
 public:
  explicit GpuFinder(Detection& detection)
      : detection_(detection), drivers_(detection.reader.drivers) {}

  void find() {
    const std::vector<std::string> on_bus = folders_of_gpus();
    for (const GpuFacts& facts : drivers_.gpus) add(facts);
    if (drivers_.gpus.empty())
      add_from_bus(on_bus);
    else if (!drivers_.nvml_missing.empty())
      detection_.note(Severity::warning,
                      format("no NVML ({}): GPUs are taken from CUDA, their NVLinks are unknown",
                             drivers_.nvml_missing),
                      "", "install the driver's libnvidia-ml.so.1");
    else
      say_hidden(on_bus);
  }

 private:
  // By class and maker: boards have simple displays that compute nothing.
  std::vector<std::string> folders_of_gpus() {
    std::vector<std::string> folders;
    for (const std::string& name : detection_.files.list("/sys/bus/pci/devices")) {
      const auto id = parse_bus_id(name);
      const auto folder = id ? detection_.pci.folder_of(*id) : std::nullopt;
      if (!folder) continue;
      const auto device_class = detection_.pci.class_of(*folder);
      if (!is_gpu_class(device_class)) continue;
      const auto vendor = detection_.pci.hex_file(*folder + "/vendor", 0xffff);
      const bool display = *device_class >> 8 == 0x0300;
      if (vendor == kNvidia || (vendor == kAmd && !display)) folders.push_back(*folder);
    }
    return folders;
  }

  void add_from_bus(const std::vector<std::string>& folders) {
    int index = 0;
    for (const std::string& folder : folders) {
      if (size_t(index) >= kMaxGpus) break;
      Pci* pci = detection_.pci.add(folder);
      if (pci == nullptr) return;
      Gpu gpu;
      gpu.dev = gpu.rank = index++;
      pci->gpu = std::move(gpu);
    }
    if (folders.empty()) return;
    const std::string why = drivers_.nvml_missing.empty() ? "it lists none" : drivers_.nvml_missing;
    detection_.note(
        Severity::warning,
        format("no GPUs from NVML ({}): {} found on the PCI bus, their NVLinks and compute "
               "capability unknown",
               why, folders.size()),
        "", "install the driver, or let this container see the GPUs");
  }

  void say_hidden(const std::vector<std::string>& on_bus) {
    std::set<BusId> shown;
    for (const GpuFacts& facts : drivers_.gpus) shown.insert(facts.bus_id);
    size_t hidden = 0;
    for (const std::string& folder : on_bus)
      if (shown.count(*PciWalk::device_of(folder)) == 0) ++hidden;
    if (hidden > 0)
      detection_.note(
          Severity::note,
          format("{} more GPUs are on the PCI bus but not listed by the driver", hidden), "",
          "a container sees only those it was given");
  }

  // Whether the GPU's memory can be reached by others at all; what else it takes is the NIC's gdr.
  // Without CUDA by the name: NVIDIA supports it on all but GeForce (GPUDirect RDMA documentation).
  static std::optional<bool> gdr(const GpuFacts& facts) {
    if (facts.cuda_gdr || facts.name.empty()) return facts.cuda_gdr;
    return facts.name.find("GeForce") == std::string::npos;
  }

  void add(const GpuFacts& facts) {
    const auto folder = detection_.pci.folder_of(facts.bus_id);
    Pci* pci =
        folder ? detection_.pci.add(*folder) : detection_.pci.add_without_folder(facts.bus_id);
    const std::string name = bus_id_text(facts.bus_id);
    if (pci == nullptr) return;
    if (!folder)
      detection_.note(Severity::warning, "the kernel does not show a GPU's place on the PCI bus",
                      name, "is /sys mounted here?");
    if (pci->gpu)
      return detection_.note(Severity::warning, "the driver lists a GPU twice", name,
                             "the first one counts");
    if (!pci->device_class) pci->device_class = kClassGpu;
    Gpu gpu;
    gpu.dev = facts.index;
    gpu.rank = rank_++;
    gpu.sm = facts.sm;
    gpu.gdr = gdr(facts);
    if (!facts.name.empty()) gpu.name = facts.name;
    if (!facts.links.empty()) gpu.links_able = int(facts.links.size());
    add_links(facts, gpu);
    add_c2c(facts, gpu);
    add_p2p(facts, gpu);
    if (facts.mig == true)
      detection_.note(Severity::note, "a GPU is split into MIG instances; ranks get parts of it",
                      name);
    if (facts.fabric_clique)
      detection_.note(
          Severity::note,
          format("GPUs are in an NVLink domain of several hosts (clique {})", *facts.fabric_clique),
          name);
    pci->gpu = std::move(gpu);
  }

  void add_links(const GpuFacts& facts, Gpu& gpu) {
    for (const NvlinkFacts& fact : facts.links) {
      if (!fact.active || !fact.remote) continue;
      const auto same = std::find_if(gpu.links.begin(), gpu.links.end(),
                                     [&](const FabricLink& l) { return l.target == *fact.remote; });
      if (same != gpu.links.end()) {
        ++same->count;
        continue;
      }
      FabricLink link;
      link.target = *fact.remote;
      link.target_class = target_class(*fact.remote);
      gpu.links.push_back(std::move(link));
    }
    const auto down =
        std::count_if(facts.links.begin(), facts.links.end(),
                      [](const NvlinkFacts& link) { return link.active && !link.remote; });
    if (down > 0)
      detection_.note(Severity::warning,
                      format("{} active NVLinks of a GPU do not report where they lead", down),
                      bus_id_text(facts.bus_id), "they are ignored; is the driver up to date?");
  }

  // A target that cannot be seen is taken for an NVSwitch: virtual machines get no other.
  uint32_t target_class(BusId target) {
    if (const auto folder = detection_.pci.folder_of(target))
      if (const auto found = detection_.pci.class_of(*folder)) return *found;
    const bool is_gpu = std::any_of(drivers_.gpus.begin(), drivers_.gpus.end(),
                                    [&](const GpuFacts& other) { return other.bus_id == target; });
    return is_gpu ? kClassGpu : kClassSwitch;
  }

  static void add_c2c(const GpuFacts& facts, Gpu& gpu) {
    for (const int64_t mbps : facts.c2c_mbps) {
      if (gpu.c2c.empty() || gpu.c2c.back().mbytes_per_s != mbps)
        gpu.c2c.push_back({.count = 1, .mbytes_per_s = mbps, .unknown = {}, .at = {}});
      else
        ++gpu.c2c.back().count;
    }
  }

  void add_p2p(const GpuFacts& facts, Gpu& gpu) {
    for (size_t other = 0; other < facts.p2p.size() && other < drivers_.gpus.size(); ++other) {
      if (facts.p2p[other] != 0) continue;
      if (gpu.no_p2p.size() < kMaxNoP2p) gpu.no_p2p.push_back(drivers_.gpus[other].bus_id);
      detection_.note(
          Severity::note, "the driver does not let some GPUs access each other's memory",
          format("{} to {}", bus_id_text(facts.bus_id), bus_id_text(drivers_.gpus[other].bus_id)),
          "nvidia-smi topo -p2p rw shows more");
    }
  }

  Detection& detection_;
  const DriverFacts& drivers_;
  int rank_ = 0;
};

}  // namespace

void discover_gpus(Detection& detection) {
  GpuFinder(detection).find();
}

}  // namespace collctl::topology
