// NVML, as far as the topology needs it: our own declarations of the public interface (NVML API
// reference, versions 11 and 12; sizes are pinned below). Loaded once; a null function is one that
// the installed driver does not have yet. Threads: NVML allows any.
#pragma once
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

using NvmlDevice = struct NvmlDeviceOpaque*;
using NvmlReturn = int;

struct NvmlPciInfo {
  char bus_id_legacy[16];
  uint32_t domain, bus, device;
  uint32_t device_and_vendor, subsystem;
  char bus_id[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

struct NvmlFieldValue {
  uint32_t field, scope;
  int64_t timestamp, latency_us;
  int32_t value_type;
  NvmlReturn result;
  union {
    double real;
    uint32_t number;
    uint64_t large;
  } value;
};
static_assert(sizeof(NvmlFieldValue) == 40);

struct NvmlFabricInfo {  // version 2
  uint32_t version;
  uint8_t cluster_uuid[16];
  NvmlReturn status;
  uint32_t clique;
  uint8_t state;
  uint32_t health;
};
static_assert(sizeof(NvmlFabricInfo) == 36);

inline constexpr NvmlReturn kNvmlSuccess = 0;
// A device that does not have it, a driver that does not know it.
inline constexpr NvmlReturn kNvmlInvalid = 2, kNvmlNotSupported = 3, kNvmlNotFound = 6,
                            kNvmlNoFunction = 13, kNvmlDeprecated = 26;
inline constexpr NvmlReturn kNvmlNoPermission = 4, kNvmlTooSmall = 7;
inline constexpr NvmlReturn kNvmlLost = 15, kNvmlNeedsReset = 16;
inline constexpr uint32_t kNvmlFabricVersion2 = sizeof(NvmlFabricInfo) | 2u << 24;
inline constexpr uint8_t kNvmlFabricCompleted = 3;
inline constexpr uint32_t kNvmlFieldLinkCount = 91;
inline constexpr uint32_t kNvmlFieldLinkMbytes = 164, kNvmlFieldLinkState = 165;  // of the link
                                                                                  // in `scope`
inline constexpr uint32_t kNvmlFieldRecoveryAction = 230;
inline constexpr uint32_t kNvmlFieldC2cCount = 170, kNvmlFieldC2cStatus = 171,
                          kNvmlFieldC2cMbytes = 172;  // of the link in `scope`
inline constexpr int kNvmlLinkP2p = 0;                // capability: memory of the other side
inline constexpr int kNvmlP2pRead = 0, kNvmlP2pWrite = 1;
inline constexpr int kNvmlP2pOk = 0;
inline constexpr int kNvmlClockSm = 1;
inline constexpr int kNvmlSensorGpu = 0;
inline constexpr uint32_t kNvmlFieldMemoryTemperature = 82;
inline constexpr int kNvmlEccCorrected = 0, kNvmlEccUncorrected = 1;
inline constexpr int kNvmlEccVolatile = 0;   // since the driver was loaded
inline constexpr int kNvmlEccAggregate = 1;  // in the GPU's life
// Errors of an NVLink, and of all of a GPU's.
inline constexpr int kNvmlLinkReplay = 0, kNvmlLinkRecovery = 1, kNvmlLinkCrcFlit = 2,
                     kNvmlLinkCrcData = 3;
inline constexpr uint32_t kNvmlFieldCrcFlits = 38, kNvmlFieldCrcData = 45, kNvmlFieldReplays = 52,
                          kNvmlFieldRecoveries = 59;
// From Blackwell on, of all links for scope ~0; and of the C2C link in `scope`.
inline constexpr uint32_t kNvmlFieldMalformed = 206, kNvmlFieldOverruns = 207,
                          kNvmlFieldRcvErrors = 208, kNvmlFieldRcvRemoteErrors = 209,
                          kNvmlFieldRcvGeneralErrors = 210, kNvmlFieldIntegrityErrors = 211,
                          kNvmlFieldDiscards = 212, kNvmlFieldRecovered = 213,
                          kNvmlFieldRecoveryFailed = 214, kNvmlFieldEffectiveErrors = 219,
                          kNvmlFieldSymbolErrors = 221;
inline constexpr uint32_t kNvmlFieldC2cErrors = 231, kNvmlFieldC2cReplays = 232,
                          kNvmlFieldC2cReplaysInRow = 233;
inline constexpr uint32_t kNvmlUnsignedInt = 1;  // value_type; else as `large`
inline constexpr int kNvmlPolicyPower = 0, kNvmlPolicyThermal = 1, kNvmlPolicyBoard = 3,
                     kNvmlPolicyReliability = 5;
struct NvmlViolation {
  unsigned long long reference_us, violated_ns;
};
struct NvmlProcess {
  uint32_t pid;
  unsigned long long memory_bytes;  // all ones: not known
  uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlProcess) == 24);

struct Nvml {
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*driver_version)(char*, unsigned) = nullptr;
  NvmlReturn (*device_count)(unsigned*) = nullptr;
  NvmlReturn (*device_by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlReturn (*pci_info)(NvmlDevice, NvmlPciInfo*) = nullptr;
  NvmlReturn (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*name)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*compute_capability)(NvmlDevice, int*, int*) = nullptr;
  NvmlReturn (*link_state)(NvmlDevice, unsigned, int*) = nullptr;
  NvmlReturn (*link_capability)(NvmlDevice, unsigned, int, unsigned*) = nullptr;
  NvmlReturn (*link_remote)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
  NvmlReturn (*field_values)(NvmlDevice, int, NvmlFieldValue*) = nullptr;
  NvmlReturn (*p2p_status)(NvmlDevice, NvmlDevice, int, int*) = nullptr;
  NvmlReturn (*mig_mode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  NvmlReturn (*fabric_info)(NvmlDevice, NvmlFabricInfo*) = nullptr;
  NvmlReturn (*device_by_bus_id)(const char*, NvmlDevice*) = nullptr;
  NvmlReturn (*clock)(NvmlDevice, int, unsigned*) = nullptr;       // MHz, now
  NvmlReturn (*most_clock)(NvmlDevice, int, unsigned*) = nullptr;  // MHz
  NvmlReturn (*throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlReturn (*ecc_errors)(NvmlDevice, int kind, int counter, unsigned long long*) = nullptr;
  NvmlReturn (*remapped_rows)(NvmlDevice, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) = nullptr;
  NvmlReturn (*link_errors)(NvmlDevice, unsigned, int, unsigned long long*) = nullptr;
  NvmlReturn (*pcie_replays)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*violation)(NvmlDevice, int policy, NvmlViolation*) = nullptr;
  NvmlReturn (*vbios)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*ecc_mode)(NvmlDevice, int* now, int* pending) = nullptr;
  NvmlReturn (*persistence)(NvmlDevice, int*) = nullptr;
  NvmlReturn (*display_active)(NvmlDevice, int*) = nullptr;
  NvmlReturn (*pages_pending)(NvmlDevice, int*) = nullptr;        // to be retired
  NvmlReturn (*power_limit)(NvmlDevice, unsigned*) = nullptr;     // mW
  NvmlReturn (*default_power)(NvmlDevice, unsigned*) = nullptr;   // mW
  NvmlReturn (*set_clock)(NvmlDevice, int, unsigned*) = nullptr;  // MHz, of applications
  NvmlReturn (*default_clock)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlReturn (*compute_processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  NvmlReturn (*graphics_processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
  NvmlReturn (*power)(NvmlDevice, unsigned*) = nullptr;                    // mW, now
  NvmlReturn (*temperature)(NvmlDevice, int sensor, unsigned*) = nullptr;  // degrees C
  std::string missing;  // why the table cannot be used; empty when it can
};
const Nvml& nvml();

// NVML in use as long as it lives; several may live at the same time.
class NvmlSession {
 public:
  NvmlSession();
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  // False: the table cannot be used (nvml().missing), or the driver refuses with result().
  explicit operator bool() const { return open_; }
  NvmlReturn result() const { return result_; }

 private:
  NvmlReturn result_ = kNvmlSuccess;
  bool open_ = false;
};

}  // namespace collctl::base::drivers
