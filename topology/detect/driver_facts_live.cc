// The drivers of this machine into plain values.
#include <algorithm>
#include <map>

#include "base/drivers/cuda.h"
#include "base/drivers/nvml.h"
#include "base/drivers/verbs.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "topology/detect/driver_facts.h"

namespace collctl::topology {
namespace {

using namespace base::drivers;

// Text of a driver in a fixed array.
template <size_t N>
std::string text_of(const char (&array)[N]) {
  return std::string(array, std::find(array, array + N, '\0'));
}

// The other end of an NVLink. An end that a virtual machine cannot see has no address, or all ones
// ("FFFFFFFF:FF:FF.0"): NCCL writes both in one way.
BusId remote_of(const NvmlPciInfo& pci) {
  const auto id = parse_bus_id(text_of(pci.bus_id));
  return id && id->value < kInvisibleTarget.value ? *id : kInvisibleTarget;
}

// How many NVLinks a GPU of that generation can have (fewer than NVML's own limit: asking beyond
// is slow on old drivers).
int most_links(int sm) {
  if (sm < 60) return 0;
  if (sm < 70) return 4;
  if (sm < 80) return 6;
  return sm < 90 ? 12 : 18;
}

class NvmlReader {
 public:
  explicit NvmlReader(DriverFacts& facts) : api_(nvml()), facts_(facts) {}

  void read() {
    facts_.nvml_missing = api_.missing;
    if (!api_.missing.empty()) return;
    if (const NvmlReturn result = api_.init(); result != kNvmlSuccess) {
      facts_.nvml_missing = "nvmlInit: " + words(result);
      return;
    }
    char version[96] = {};
    if (api_.driver_version != nullptr &&
        api_.driver_version(version, sizeof version) == kNvmlSuccess)
      facts_.nvidia_driver = text_of(version);
    unsigned count = 0;
    if (const NvmlReturn result = api_.device_count(&count); result != kNvmlSuccess)
      trouble(format("NVML cannot count GPUs: {}", words(result)));
    for (unsigned i = 0; i < count && i < kMaxGpus; ++i) read_gpu(i);
    read_p2p();
    api_.shutdown();
  }

 private:
  std::string words(NvmlReturn result) const {
    const char* text = api_.error_string != nullptr ? api_.error_string(result) : nullptr;
    return text != nullptr ? text : format("NVML error {}", result);
  }
  void trouble(std::string what) { facts_.troubles.push_back(std::move(what)); }

  void read_gpu(unsigned index) {
    NvmlDevice device = nullptr;
    if (const NvmlReturn result = api_.device_by_index(index, &device); result != kNvmlSuccess)
      return trouble(format("NVML cannot open GPU {}: {}", index, words(result)));
    NvmlPciInfo pci{};
    if (const NvmlReturn result = api_.pci_info(device, &pci); result != kNvmlSuccess)
      return trouble(format("NVML does not report where GPU {} is: {}", index, words(result)));
    const auto bus_id = parse_bus_id(text_of(pci.bus_id));
    if (!bus_id) return trouble(format("NVML reports GPU {} at '{}'", index, text_of(pci.bus_id)));
    GpuFacts gpu;
    gpu.index = int(index);
    gpu.bus_id = *bus_id;
    char text[96] = {};
    if (api_.uuid != nullptr && api_.uuid(device, text, sizeof text) == kNvmlSuccess)
      gpu.uuid = text_of(text);
    if (api_.name != nullptr && api_.name(device, text, sizeof text) == kNvmlSuccess)
      gpu.name = text_of(text);
    int major = 0, minor = 0;
    if (api_.compute_capability != nullptr &&
        api_.compute_capability(device, &major, &minor) == kNvmlSuccess)
      gpu.sm = major * 10 + minor;
    unsigned mig = 0, pending = 0;
    if (api_.mig_mode != nullptr && api_.mig_mode(device, &mig, &pending) == kNvmlSuccess)
      gpu.mig = mig != 0;
    read_fabric(device, gpu);
    for (int link = 0; link < most_links(gpu.sm.value_or(0)); ++link)
      read_link(device, unsigned(link), gpu);
    read_c2c(device, gpu);
    devices_.push_back(device);
    facts_.gpus.push_back(std::move(gpu));
  }

  std::optional<uint32_t> field(NvmlDevice device, uint32_t id, uint32_t scope) const {
    NvmlFieldValue value{};
    value.field = id;
    value.scope = scope;
    if (api_.field_values == nullptr || api_.field_values(device, 1, &value) != kNvmlSuccess ||
        value.result != kNvmlSuccess)
      return std::nullopt;
    return value.value.number;
  }

  void read_link(NvmlDevice device, unsigned link, GpuFacts& gpu) {
    unsigned p2p = 0;
    if (api_.link_capability == nullptr || api_.link_remote == nullptr ||
        api_.link_capability(device, link, kNvmlLinkP2p, &p2p) != kNvmlSuccess || p2p == 0)
      return;
    NvlinkFacts facts;
    facts.link = int(link);
    std::optional<uint32_t> state;
    if (*gpu.sm >= 90) state = field(device, kNvmlFieldLinkState, link);
    int active = 0;
    if (!state && api_.link_state != nullptr &&
        api_.link_state(device, link, &active) == kNvmlSuccess)
      state = uint32_t(active);
    facts.active = state.value_or(0) == 1;
    NvmlPciInfo remote{};
    if (facts.active && api_.link_remote(device, link, &remote) == kNvmlSuccess)
      facts.remote = remote_of(remote);
    gpu.links.push_back(facts);
  }

  void read_c2c(NvmlDevice device, GpuFacts& gpu) const {
    const uint32_t count =
        gpu.sm.value_or(0) >= 90 ? field(device, kNvmlFieldC2cCount, 0).value_or(0) : 0;
    for (uint32_t link = 0; link < std::min(count, uint32_t(kMaxNvlinks)); ++link)
      if (field(device, kNvmlFieldC2cStatus, link).value_or(0) == 1)
        gpu.c2c_mbps.push_back(field(device, kNvmlFieldC2cMbytes, link).value_or(0));
  }

  void read_fabric(NvmlDevice device, GpuFacts& gpu) const {
    NvmlFabricInfo info{};
    info.version = kNvmlFabricVersion2;
    if (api_.fabric_info == nullptr || api_.fabric_info(device, &info) != kNvmlSuccess ||
        info.state != kNvmlFabricCompleted || info.status != kNvmlSuccess)
      return;
    const bool any = std::any_of(std::begin(info.cluster_uuid), std::end(info.cluster_uuid),
                                 [](uint8_t byte) { return byte != 0; });
    if (!any) return;  // a single host
    for (const uint8_t byte : info.cluster_uuid) gpu.fabric_uuid += format("{:02x}", int(byte));
    gpu.fabric_clique = info.clique;
  }

  void read_p2p() {
    if (api_.p2p_status == nullptr || devices_.size() < 2) return;
    for (size_t a = 0; a < devices_.size(); ++a)
      for (size_t b = 0; b < devices_.size(); ++b) {
        int read = kNvmlP2pOk, write = kNvmlP2pOk;
        const bool known =
            a == b ||
            (api_.p2p_status(devices_[a], devices_[b], kNvmlP2pRead, &read) == kNvmlSuccess &&
             api_.p2p_status(devices_[a], devices_[b], kNvmlP2pWrite, &write) == kNvmlSuccess);
        if (!known) {
          for (GpuFacts& gpu : facts_.gpus) gpu.p2p.clear();
          return trouble("NVML does not report which GPUs reach each other");
        }
        facts_.gpus[a].p2p.push_back(read == kNvmlP2pOk && write == kNvmlP2pOk);
      }
  }

  const Nvml& api_;
  DriverFacts& facts_;
  std::vector<NvmlDevice> devices_;
};

std::optional<int> attribute(const Cuda& api, int device, int which) {
  int value = 0;
  if (api.attribute(&value, which, device) != kCudaSuccess) return std::nullopt;
  return value;
}

void read_cuda(DriverFacts& facts) {
  const Cuda& api = cuda();
  facts.cuda_missing = api.missing;
  if (!api.missing.empty()) return;
  const auto words = [&](CudaReturn result) -> std::string {
    const char* name = nullptr;
    return api.error_name(result, &name) == kCudaSuccess && name != nullptr
               ? name
               : format("CUDA error {}", result);
  };
  int count = 0;
  CudaReturn result = api.init(0);
  if (result == kCudaSuccess) result = api.device_count(&count);
  if (result != kCudaSuccess) {
    facts.cuda_missing = "cuInit: " + words(result);
    return;
  }
  std::map<BusId, size_t> known;
  for (size_t i = 0; i < facts.gpus.size(); ++i) known[facts.gpus[i].bus_id] = i;
  const bool alone = facts.gpus.empty();  // no NVML: index and capability from here
  for (int ordinal = 0; ordinal < std::min(count, int(kMaxGpus)); ++ordinal) {
    int device = 0;
    char text[64] = {};
    if (api.device(&device, ordinal) != kCudaSuccess ||
        api.bus_id(text, sizeof text, device) != kCudaSuccess)
      continue;
    const auto bus_id = parse_bus_id(text_of(text));
    if (!bus_id) continue;
    if (alone && known.try_emplace(*bus_id, facts.gpus.size()).second) {
      GpuFacts gpu;
      gpu.index = ordinal;
      gpu.bus_id = *bus_id;
      const auto major = attribute(api, device, kCudaMajor);
      const auto minor = attribute(api, device, kCudaMinor);
      if (major && minor) gpu.sm = *major * 10 + *minor;
      facts.gpus.push_back(std::move(gpu));
    }
    const auto found = known.find(*bus_id);
    if (found == known.end()) continue;
    GpuFacts& gpu = facts.gpus[found->second];
    gpu.cuda_ordinal = ordinal;
    if (const auto gdr = attribute(api, device, kCudaGdr)) gpu.cuda_gdr = *gdr != 0;
    if (const auto dmabuf = attribute(api, device, kCudaDmaBuf)) gpu.cuda_dmabuf = *dmabuf != 0;
  }
}

void read_verbs(DriverFacts& facts) {
  const Verbs& api = verbs();
  facts.verbs_missing = api.missing;
  if (!api.missing.empty()) return;
  int count = 0;
  VerbsDevice** const list = api.device_list(&count);
  if (list == nullptr) return;  // no RDMA in this kernel
  for (int i = 0; i < count && facts.rdma.size() < kMaxRdma; ++i) {
    RdmaFacts rdma;
    rdma.name = api.name(list[i]);
    VerbsContext* const context = api.open(list[i]);
    if (context == nullptr) {
      facts.troubles.push_back(
          format("cannot open {}: is /dev/infiniband here, and accessible?", rdma.name));
      continue;
    }
    VerbsDeviceFacts device{};
    if (api.device_facts(context, &device) == 0) {
      rdma.system_guid = device.system_guid;
      rdma.max_qp = device.max_qp;
      for (int number = 1; number <= device.ports; ++number) {
        VerbsPortFacts port{};
        if (api.port_facts(context, uint8_t(number), &port) == 0)
          rdma.ports.push_back({number, port.state == 4, port_mbps(port)});
      }
    } else {
      facts.troubles.push_back(format("{} does not report its properties", rdma.name));
    }
    api.close(context);
    facts.rdma.push_back(std::move(rdma));
  }
  api.free_list(list);
}

}  // namespace

DriverFacts live_drivers() {
  DriverFacts facts;
  NvmlReader(facts).read();
  read_verbs(facts);
  // CUDA takes half a second and more to come up. NVML says all but how NICs reach GPU memory.
  const bool rdma = !facts.rdma.empty() || !base::rdma_ports().empty();
  if (!facts.nvml_missing.empty() || (!facts.gpus.empty() && rdma))
    read_cuda(facts);
  else
    facts.cuda_missing = "not queried: NVML has answered, and there is no RDMA device";
  facts.interfaces.emplace();
  for (const base::NetInterface& each : base::net_interfaces())
    facts.interfaces->push_back(
        {each.name, each.up, each.loopback, !each.addresses.empty(), each.speed_mbps, each.aside});
  return facts;
}

}  // namespace collctl::topology
