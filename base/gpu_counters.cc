// NVML's counters of each GPU.
#include <algorithm>

#include "base/bus_id.h"
#include "base/drivers/nvml.h"
#include "base/format.h"
#include "base/host_counters.h"
#include "base/host_devices.h"

namespace collctl::base {
namespace drivers {
namespace {

constexpr unsigned kMostGpusCounted = 256, kMostLinksCounted = 18;
struct FieldName {
  uint32_t id;
  const char* name;
};
constexpr FieldName kNewLinkErrors[] = {{kNvmlFieldMalformed, "nvlink_malformed"},
                                        {kNvmlFieldOverruns, "nvlink_overruns"},
                                        {kNvmlFieldRcvErrors, "nvlink_rcv_errors"},
                                        {kNvmlFieldRcvRemoteErrors, "nvlink_rcv_remote_errors"},
                                        {kNvmlFieldRcvGeneralErrors, "nvlink_rcv_general_errors"},
                                        {kNvmlFieldIntegrityErrors, "nvlink_integrity_errors"},
                                        {kNvmlFieldDiscards, "nvlink_discards"},
                                        {kNvmlFieldRecovered, "nvlink_recovered"},
                                        {kNvmlFieldRecoveryFailed, "nvlink_recovery_failed"},
                                        {kNvmlFieldEffectiveErrors, "nvlink_effective_errors"},
                                        {kNvmlFieldSymbolErrors, "nvlink_symbol_errors"}};
constexpr FieldName kC2cErrors[] = {{kNvmlFieldC2cErrors, "c2c_errors"},
                                    {kNvmlFieldC2cReplays, "c2c_replays"},
                                    {kNvmlFieldC2cReplaysInRow, "c2c_replays_in_row"}};
constexpr const char* kLinkErrors[] = {"replay", "recovery", "crc_flit", "crc_data"};

class GpuCounters {
 public:
  GpuCounters(NvmlDevice device, std::string bus_id, DeviceCounters& to)
      : device_(device), bus_id_(std::move(bus_id)), to_(to) {}

  void read() {
    unsigned long long wide = 0;
    if (api_.ecc_errors != nullptr)
      for (const int kind : {kNvmlEccCorrected, kNvmlEccUncorrected})
        if (api_.ecc_errors(device_, kind, kNvmlEccVolatile, &wide) == kNvmlSuccess)
          add(kind == kNvmlEccCorrected ? "ecc_corrected" : "ecc_uncorrected", wide);
    if (api_.ecc_errors != nullptr &&
        api_.ecc_errors(device_, kNvmlEccUncorrected, kNvmlEccAggregate, &wide) == kNvmlSuccess)
      add("lifetime_ecc_uncorrected", wide);
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (api_.remapped_rows != nullptr &&
        api_.remapped_rows(device_, &corrected, &uncorrected, &pending, &failed) == kNvmlSuccess) {
      add("rows_remapped_corrected", corrected);
      add("rows_remapped_uncorrected", uncorrected);
      add("rows_remap_pending", pending);
      add("rows_remap_failed", failed);
    }
    if (!links()) all_links();
    unsigned replays = 0;
    if (api_.pcie_replays != nullptr && api_.pcie_replays(device_, &replays) == kNvmlSuccess)
      add("pcie_replays", replays);
    throttled(kNvmlPolicyPower, "throttled_power_ns");
    throttled(kNvmlPolicyThermal, "throttled_thermal_ns");
    throttled(kNvmlPolicyBoard, "throttled_board_ns");
    throttled(kNvmlPolicyReliability, "throttled_reliability_ns");
  }

 private:
  void add(const std::string& name, uint64_t value) {
    ++to_.looked_at;
    if (value > 0) to_.counters.push_back({CounterOf::gpu, bus_id_, name, value});
  }

  // False: this GPU does not count by link.
  bool links() {
    bool any = false;
    for (unsigned link = 0; api_.link_errors != nullptr && link < kMostLinksCounted; ++link)
      for (int which = kNvmlLinkReplay; which <= kNvmlLinkCrcData; ++which) {
        unsigned long long errors = 0;
        if (api_.link_errors(device_, link, which, &errors) != kNvmlSuccess) {
          if (which == kNvmlLinkReplay) return any;
          continue;
        }
        any = true;
        add(format("nvlink_{} {}", kLinkErrors[which], link), errors);
      }
    return any;
  }

  void field(uint32_t id, uint32_t scope, const std::string& name) {
    NvmlFieldValue value{};
    value.field = id;
    value.scope = scope;
    if (api_.field_values == nullptr || api_.field_values(device_, 1, &value) != kNvmlSuccess ||
        value.result != kNvmlSuccess)
      return;
    add(name, value.value_type == kNvmlUnsignedInt ? value.value.number : value.value.large);
  }

  void all_links() {
    constexpr uint32_t kFields[] = {kNvmlFieldReplays, kNvmlFieldRecoveries, kNvmlFieldCrcFlits,
                                    kNvmlFieldCrcData};
    for (size_t i = 0; i < std::size(kFields); ++i)
      field(kFields[i], 0, format("nvlink_{}", kLinkErrors[i]));
    for (const auto& [id, name] : kNewLinkErrors) field(id, ~0u, name);
    NvmlFieldValue count{};
    count.field = kNvmlFieldC2cCount;
    if (api_.field_values == nullptr || api_.field_values(device_, 1, &count) != kNvmlSuccess ||
        count.result != kNvmlSuccess)
      return;
    for (uint32_t link = 0; link < std::min(count.value.number, kMostLinksCounted); ++link)
      for (const auto& [id, name] : kC2cErrors) field(id, link, format("{} {}", name, link));
  }

  void throttled(int policy, const char* name) {
    NvmlViolation violation{};
    if (api_.violation != nullptr && api_.violation(device_, policy, &violation) == kNvmlSuccess)
      add(name, violation.violated_ns);
  }

  const Nvml& api_ = nvml();
  const NvmlDevice device_;
  const std::string bus_id_;
  DeviceCounters& to_;
};

}  // namespace
}  // namespace drivers

void read_gpu_counters(DeviceCounters& to) {
  using namespace drivers;
  const Nvml& api = nvml();
  const auto missing = [&](const std::string& why) {
    if (nvidia_pci_devices() > 0) to.nvml_missing = why;
  };
  if (!api.missing.empty()) return missing(api.missing);
  const NvmlSession session;
  if (!session) return missing(format("nvmlInit: NVML error {}", session.result()));
  unsigned count = 0;
  if (const NvmlReturn result = api.device_count(&count); result != kNvmlSuccess)
    missing(format("NVML cannot count GPUs: NVML error {}", result));
  for (unsigned i = 0; i < count && i < kMostGpusCounted; ++i) {
    NvmlDevice device = nullptr;
    NvmlPciInfo pci{};
    if (api.device_by_index(i, &device) != kNvmlSuccess ||
        api.pci_info(device, &pci) != kNvmlSuccess) {
      missing(format("NVML cannot open GPU {}", i));
      continue;
    }
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    const auto bus = bus_number(pci.bus_id);
    GpuCounters(device, bus ? bus_text(*bus) : format("GPU {}", i), to).read();
  }
}

}  // namespace collctl::base
