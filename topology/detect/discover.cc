#include "topology/detect/discover.h"

#include <algorithm>

#include "base/format.h"
#include "topology/detect/discover_parts.h"

namespace collctl::topology {
namespace {

constexpr const char* kPeermem[] = {
    "/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "/sys/kernel/mm/memory_peers/amdkfd/version"};
constexpr const char* kDriverVersion = "/proc/driver/nvidia/version";
const std::string kNodes = "/sys/devices/system/node";

constexpr int kMaxCpuNumber = 1 << 20;  // of a family or model, as in a file

struct NumaNode {
  int id = 0;
  std::string affinity;
  bool has_cores = false;  // some nodes are memory only
};

std::vector<NumaNode> numa_nodes(FileTree& files) {
  std::vector<NumaNode> nodes;
  for (const std::string& name : files.list(kNodes)) {
    if (name.rfind("node", 0) != 0 || name.size() == 4 || name.size() > 8 ||
        name.find_first_not_of("0123456789", 4) != std::string::npos)
      continue;
    const std::string map = files.read(kNodes + "/" + name + "/cpumap").value_or("");
    if (map.size() > kMaxAttributeBytes || nodes.size() >= size_t(base::kMaxNumaNodes)) continue;
    nodes.push_back(
        {std::stoi(name.substr(4)), map, map.find_first_not_of("0,\n") != std::string::npos});
  }
  return nodes;
}

class Discovery {
 public:
  explicit Discovery(Reader& reader) : detection_(reader), reader_(reader) {}

  Detected run() {
    Detected made;
    made.processors = base::read_processors(
        [&](const std::string& path) { return reader_.files->read("/" + path); });
    model_ = made.processors.model;
    for (const Finding& finding : reader_.findings) detection_.findings.add(finding);
    for (const std::string& trouble : reader_.drivers.troubles)
      detection_.note(Severity::warning, trouble, "");
    detection_.gpu_memory = gpu_memory();
    discover_gpus(detection_);
    discover_nets(detection_);
    made.system = system();
    made.findings = detection_.findings.take();
    return made;
  }

 private:
  // By a kernel module, or by DMA-BUF: CUDA says whether it can; without CUDA, NVIDIA's open kernel
  // modules can, the others cannot.
  bool gpu_memory() {
    bool module = false, known = false, dmabuf = false;
    for (const char* path : kPeermem) module = module || reader_.files->read(path).has_value();
    for (const GpuFacts& gpu : reader_.drivers.gpus) {
      known = known || gpu.cuda_dmabuf.has_value();
      dmabuf = dmabuf || gpu.cuda_dmabuf == true;
    }
    if (!known)
      dmabuf = reader_.files->read(kDriverVersion).value_or("").find("Open Kernel Module") !=
               std::string::npos;
    return module || dmabuf;
  }

  System system() {
    const std::vector<NumaNode> nodes = numa_nodes(*reader_.files);
    std::map<int, std::vector<Pci>> devices = detection_.pci.take();
    const auto with_cores = std::count_if(nodes.begin(), nodes.end(),
                                          [](const NumaNode& node) { return node.has_cores; });
    System made;
    std::map<int, Cpu> cpus;
    for (const NumaNode& node : nodes) {
      if (!node.has_cores && devices.count(node.id) == 0) continue;
      Cpu& cpu = cpus[node.id];
      if (!node.affinity.empty()) cpu.affinity = node.affinity;
    }
    int only = -1;  // the one node that can be meant where the kernel says -1
    if (with_cores == 1)
      only = std::find_if(nodes.begin(), nodes.end(), [](const NumaNode& n) {
               return n.has_cores;
             })->id;
    for (auto& [numa, below] : devices) {
      Cpu& cpu = cpus[numa >= 0 ? numa : only];
      std::move(below.begin(), below.end(), std::back_inserter(cpu.children));
    }
    if (cpus.empty()) cpus[only];
    for (auto& [numa, cpu] : cpus) {
      fill(cpu, numa);
      made.cpus.push_back(std::move(cpu));
    }
    made.cpus.front().nics = std::move(detection_.virtual_nics);
    return made;
  }

  void fill(Cpu& cpu, int numa) const {
    cpu.numa = numa;
    if (!reader_.arch.empty()) cpu.arch = reader_.arch;
    // Devices of a node and those of no node together.
    std::sort(cpu.children.begin(), cpu.children.end(),
              [](const Pci& a, const Pci& b) { return a.bus_id < b.bus_id; });
    if (model_.vendor.empty()) return;
    // Zhaoxin's own spelling, by which NCCL knows it.
    cpu.vendor = model_.vendor == "Shanghai" ? "  Shanghai  " : model_.vendor;
    const auto sensible = [](int number) { return number >= 0 && number <= kMaxCpuNumber; };
    if (sensible(model_.family)) cpu.family = model_.family;
    if (sensible(model_.model)) cpu.model = model_.model;
  }

  Detection detection_;
  Reader& reader_;
  base::ProcessorModel model_;
};

}  // namespace

Detected discover(Reader& reader) {
  return Discovery(reader).run();
}

}  // namespace collctl::topology
