#include "transport/device/fabric.h"

#include <algorithm>
#include <iterator>

#include "base/drivers/nvml.h"
#include "base/format.h"
#include "transport/device/device.h"
#include "transport/device/driver.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

// One page with a name, given back at once. Without the right to an IMEX channel the driver says no
// only here.
std::string why_no_names(const Device& device) {
  const Cuda& api = cuda();
  int supported = 0;
  if (!device.facts().fd_handles ||
      api.attribute(&supported, kCudaFabricSupported, device.handle()) != kCudaSuccess ||
      supported == 0)
    return "the driver or the GPU has no fabric handles";
  CudaAllocation allocation;
  allocation.handle_types = kCudaFdHandle | kCudaFabricHandle;
  allocation.location.id = device.handle();
  size_t page = 0;
  const int asked = api.granularity(&page, &allocation, kCudaGranularityMinimum);
  if (asked != kCudaSuccess) return driver_word(asked);
  CudaMemoryHandle handle = 0;
  if (const int made = api.handle_create(&handle, page, &allocation, 0); made != kCudaSuccess)
    return "memory with a fabric handle: " + driver_word(made) +
           (made == kCudaNotPermitted ? " (no IMEX channel: /dev/nvidia-caps-imex-channels)" : "");
  FabricName name;
  const int named = api.handle_export(&name, handle, kCudaFabricHandle, 0);
  api.handle_release(handle);
  return named == kCudaSuccess ? "" : "a fabric handle: " + driver_word(named);
}

std::optional<FabricPlace> place_by_nvml(const std::string& bus_id) {
  const Nvml& api = nvml();
  const NvmlSession session;
  if (!session || api.device_by_bus_id == nullptr || api.fabric_info == nullptr)
    return std::nullopt;
  NvmlDevice device = nullptr;
  NvmlFabricInfo info{};
  info.version = kNvmlFabricVersion2;
  const bool known = api.device_by_bus_id(bus_id.c_str(), &device) == kNvmlSuccess &&
                     api.fabric_info(device, &info) == kNvmlSuccess &&
                     info.state == kNvmlFabricCompleted && info.status == kNvmlSuccess;
  FabricPlace place;
  std::copy(std::begin(info.cluster_uuid), std::end(info.cluster_uuid), place.cluster.begin());
  place.clique = info.clique;
  // Zero: NVLink ends at this host.
  const bool spans = std::any_of(place.cluster.begin(), place.cluster.end(),
                                 [](uint8_t byte) { return byte != 0; });
  if (!known || !spans) return std::nullopt;
  return place;
}

}  // namespace

FoundFabric find_fabric(const Device& device) {
  FoundFabric found;
  found.why_not = why_no_names(device);
  if (!found.why_not.empty()) return found;
  found.place = place_by_nvml(device.facts().bus_id);
  if (!found.place) found.why_not = "NVML does not report it in an NVLink domain of several hosts";
  return found;
}

}  // namespace collctl::transport
