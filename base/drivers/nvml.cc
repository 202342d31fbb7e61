#include "base/drivers/nvml.h"

#include "base/drivers/library.h"

namespace collctl::base::drivers {
namespace {

Nvml load_nvml() {
  Nvml table;
  const Library library("libnvidia-ml.so.1");
  table.missing = library.error();
  if (!library) return table;
  library.find(table.init, "nvmlInit_v2");
  library.find(table.shutdown, "nvmlShutdown");
  library.find(table.error_string, "nvmlErrorString");
  library.find(table.driver_version, "nvmlSystemGetDriverVersion");
  library.find(table.device_count, "nvmlDeviceGetCount_v2");
  library.find(table.device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  library.find(table.pci_info, "nvmlDeviceGetPciInfo_v3");
  library.find(table.uuid, "nvmlDeviceGetUUID");
  library.find(table.name, "nvmlDeviceGetName");
  library.find(table.compute_capability, "nvmlDeviceGetCudaComputeCapability");
  library.find(table.link_state, "nvmlDeviceGetNvLinkState");
  library.find(table.link_capability, "nvmlDeviceGetNvLinkCapability");
  library.find(table.link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  library.find(table.field_values, "nvmlDeviceGetFieldValues");
  library.find(table.p2p_status, "nvmlDeviceGetP2PStatus");
  library.find(table.mig_mode, "nvmlDeviceGetMigMode");
  library.find(table.fabric_info, "nvmlDeviceGetGpuFabricInfoV");
  library.find(table.device_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  library.find(table.clock, "nvmlDeviceGetClockInfo");
  library.find(table.most_clock, "nvmlDeviceGetMaxClockInfo");
  library.find(table.throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  library.find(table.ecc_errors, "nvmlDeviceGetTotalEccErrors");
  library.find(table.remapped_rows, "nvmlDeviceGetRemappedRows");
  library.find(table.link_errors, "nvmlDeviceGetNvLinkErrorCounter");
  library.find(table.pcie_replays, "nvmlDeviceGetPcieReplayCounter");
  library.find(table.violation, "nvmlDeviceGetViolationStatus");
  library.find(table.vbios, "nvmlDeviceGetVbiosVersion");
  library.find(table.ecc_mode, "nvmlDeviceGetEccMode");
  library.find(table.persistence, "nvmlDeviceGetPersistenceMode");
  library.find(table.display_active, "nvmlDeviceGetDisplayActive");
  library.find(table.pages_pending, "nvmlDeviceGetRetiredPagesPendingStatus");
  library.find(table.power_limit, "nvmlDeviceGetPowerManagementLimit");
  library.find(table.default_power, "nvmlDeviceGetPowerManagementDefaultLimit");
  library.find(table.set_clock, "nvmlDeviceGetApplicationsClock");
  library.find(table.default_clock, "nvmlDeviceGetDefaultApplicationsClock");
  library.find(table.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  library.find(table.graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3");
  library.find(table.power, "nvmlDeviceGetPowerUsage");
  library.find(table.temperature, "nvmlDeviceGetTemperature");
  if (table.init == nullptr || table.shutdown == nullptr || table.device_count == nullptr ||
      table.device_by_index == nullptr || table.pci_info == nullptr)
    table.missing = "libnvidia-ml.so.1 is too old: it lacks functions of NVML 11";
  return table;
}

}  // namespace

const Nvml& nvml() {
  static const Nvml table = load_nvml();
  return table;
}

NvmlSession::NvmlSession() {
  if (!nvml().missing.empty()) return;
  result_ = nvml().init();
  open_ = result_ == kNvmlSuccess;
}

NvmlSession::~NvmlSession() {
  if (open_) nvml().shutdown();
}

}  // namespace collctl::base::drivers
