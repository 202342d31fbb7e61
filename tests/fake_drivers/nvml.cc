// A libnvidia-ml.so.1 for tests: GPUs as the variable FAKE_NVML says, in the public interface of
// NVML (its functions' names and argument types, as the product declares them). Only what the
// product calls. "GPUS:SM:LINKS:KIND" with KIND switch, pair or hidden; "fails": nvmlInit fails.
#include "tests/fake_drivers/nvml_control.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

struct World {
  int gpus = 0, sm = 0, links = 0;
  char kind[16] = {};
};

World world() {
  World made;
  const char* text = std::getenv("FAKE_NVML");
  if (text == nullptr ||
      std::sscanf(text, "%d:%d:%d:%15s", &made.gpus, &made.sm, &made.links, made.kind) != 4)
    made.gpus = 0;
  return made;
}

struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  unsigned long long value;
};

constexpr int kOk = 0, kNotInitialised = 1, kInvalid = 2, kNotSupported = 3, kNotFound = 6;
std::atomic<int> opened = 0;

// GPUs by bus id (nvml_control.h): pointers to them are devices as well.
struct Throttled {
  std::vector<uint64_t> masks;
  size_t asked = 0;
  bool in_fabric = false;
  uint8_t cluster = 0;
  uint32_t clique = 0;
  uint64_t now() const { return masks[std::min(asked, masks.size()) - (asked == 0 ? 0 : 1)]; }
};
std::mutex throttle_mutex;
std::map<std::string, Throttled>& throttled() {
  static std::map<std::string, Throttled> all;
  return all;
}
Throttled* throttled_gpu(void* device) {
  for (auto& [bus_id, gpu] : throttled())
    if (&gpu == device && !gpu.masks.empty()) return &gpu;
  return nullptr;
}
struct FabricInfo {  // version 2
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

std::map<std::pair<uintptr_t, std::string>, uint64_t>& counted() {
  static std::map<std::pair<uintptr_t, std::string>, uint64_t> all;
  return all;
}
uint64_t counter_of(void* device, const std::string& name) {
  const std::lock_guard lock(throttle_mutex);
  const auto found = counted().find({reinterpret_cast<uintptr_t>(device) - 1, name});
  return found == counted().end() ? 0 : found->second;
}

// A fact of a GPU that a test has set; what it has not is not supported. "NAME error" is what the
// driver answers instead.
template <class T>
int fact_of(void* device, const std::string& name, T* to) {
  const std::lock_guard lock(throttle_mutex);
  const uintptr_t index = reinterpret_cast<uintptr_t>(device) - 1;
  const auto& all = counted();
  if (const auto error = all.find({index, name + " error"}); error != all.end())
    return int(error->second);
  const auto found = all.find({index, name});
  if (found == all.end()) return kNotSupported;
  *to = T(found->second);
  return kOk;
}

// A device is its index plus one, as a pointer.
uintptr_t index_of(void* device) {
  return reinterpret_cast<uintptr_t>(device) - 1;
}

void put_bus_id(PciInfo* to, unsigned index) {
  std::memset(to, 0, sizeof *to);
  to->bus = 0x10 + index;
  std::snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", to->bus);
}

}  // namespace

namespace fake_nvml {

void set_throttle(const std::string& bus_id, std::vector<uint64_t> masks) {
  const std::lock_guard lock(throttle_mutex);
  throttled().erase(bus_id);
  if (!masks.empty()) throttled()[bus_id].masks = std::move(masks);
}

void set_fabric(const std::string& bus_id, uint8_t cluster, uint32_t clique) {
  const std::lock_guard lock(throttle_mutex);
  Throttled& gpu = throttled()[bus_id];
  gpu.in_fabric = true;
  gpu.cluster = cluster;
  gpu.clique = clique;
}

void clear_fabric() {
  const std::lock_guard lock(throttle_mutex);
  std::erase_if(throttled(), [](const auto& entry) { return entry.second.masks.empty(); });
}

void set_counter(unsigned gpu, const std::string& name, uint64_t value) {
  const std::lock_guard lock(throttle_mutex);
  counted()[{gpu, name}] = value;
}

void clear_counters() {
  const std::lock_guard lock(throttle_mutex);
  counted().clear();
}

}  // namespace fake_nvml

namespace {

struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
// "process 4242" and its memory.
int processes_of(void* device, const std::string& kind, unsigned* count, Process* to) {
  const std::lock_guard lock(throttle_mutex);
  std::vector<Process> list;
  for (const auto& [key, memory] : counted())
    if (key.first == index_of(device) && key.second.rfind(kind + " ", 0) == 0)
      list.push_back({unsigned(std::atoi(key.second.c_str() + kind.size() + 1)), memory, ~0u, ~0u});
  const bool fits = list.size() <= *count;
  *count = unsigned(list.size());
  if (!fits) return 7;  // insufficient size
  std::copy(list.begin(), list.end(), to);
  return kOk;
}

}  // namespace

extern "C" {

int nvmlDeviceGetVbiosVersion(void* device, char* text, unsigned size) {
  unsigned number = 0;
  if (const int result = fact_of(device, "vbios", &number); result != kOk) return result;
  std::snprintf(text, size, "96.00.%02X", number);
  return kOk;
}
int nvmlDeviceGetEccMode(void* device, int* now, int* pending) {
  const int result = fact_of(device, "ecc", now);
  return result == kOk ? fact_of(device, "ecc_pending", pending) : result;
}
int nvmlDeviceGetPersistenceMode(void* device, int* on) {
  return fact_of(device, "persistence", on);
}
int nvmlDeviceGetDisplayActive(void* device, int* on) {
  return fact_of(device, "display", on);
}
int nvmlDeviceGetRetiredPagesPendingStatus(void* device, int* on) {
  return fact_of(device, "pages_pending", on);
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* mW) {
  return fact_of(device, "power_limit_mW", mW);
}
int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* mW) {
  return fact_of(device, "power_default_mW", mW);
}
int nvmlDeviceGetApplicationsClock(void* device, int kind, unsigned* mhz) {
  return kind == 1 ? fact_of(device, "clock_MHz", mhz) : kInvalid;
}
int nvmlDeviceGetDefaultApplicationsClock(void* device, int kind, unsigned* mhz) {
  return kind == 1 ? fact_of(device, "clock_default_MHz", mhz) : kInvalid;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* to) {
  return processes_of(device, "process", count, to);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, Process* to) {
  return processes_of(device, "graphics", count, to);
}

int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  if (kind > 1 || counter > 1 || (kind == 0 && counter == 1)) return kInvalid;
  *errors = counter_of(device, kind == 0      ? "ecc_corrected"
                               : counter == 0 ? "ecc_uncorrected"
                                              : "lifetime_ecc_uncorrected");
  return kOk;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  *corrected = unsigned(counter_of(device, "rows_remapped_corrected"));
  *uncorrected = unsigned(counter_of(device, "rows_remapped_uncorrected"));
  *pending = unsigned(counter_of(device, "rows_remap_pending"));
  *failed = unsigned(counter_of(device, "rows_remap_failed"));
  return kOk;
}
// Not for compute capability 9.0 and later, as links' states; there all links have one sum.
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, int which,
                                    unsigned long long* errors) {
  if (world().sm >= 90) return kNotSupported;
  if (int(link) >= world().links || which > 3) return kInvalid;
  constexpr const char* kNames[] = {"replay", "recovery", "crc_flit", "crc_data"};
  *errors = counter_of(device, "nvlink " + std::to_string(link) + " " + kNames[which]);
  return kOk;
}
int nvmlDeviceGetPcieReplayCounter(void* device, unsigned* replays) {
  *replays = unsigned(counter_of(device, "pcie_replays"));
  return kOk;
}
struct Violation {
  unsigned long long reference_us, violated_ns;
};
int nvmlDeviceGetViolationStatus(void* device, int policy, Violation* violation) {
  const char* name = policy == 0   ? "throttled_power_ns"
                     : policy == 1 ? "throttled_thermal_ns"
                     : policy == 3 ? "throttled_board_ns"
                     : policy == 5 ? "throttled_reliability_ns"
                                   : nullptr;
  if (name == nullptr) return kNotSupported;
  violation->reference_us = 1;
  violation->violated_ns = counter_of(device, name);
  return kOk;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (opened == 0) return kNotInitialised;
  const std::lock_guard lock(throttle_mutex);
  const auto found = throttled().find(bus_id);
  if (found == throttled().end()) return kNotFound;
  *device = &found->second;
  return kOk;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  const std::lock_guard lock(throttle_mutex);
  Throttled* gpu = throttled_gpu(device);
  if (gpu == nullptr) return kNotSupported;
  ++gpu->asked;
  *reasons = gpu->now();
  return kOk;
}
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  const std::lock_guard lock(throttle_mutex);
  const Throttled* gpu = throttled_gpu(device);
  if (gpu == nullptr || kind != 1) return kNotSupported;
  *mhz = gpu->now() == 0 ? 1980 : 990;
  return kOk;
}
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* mhz) {
  const std::lock_guard lock(throttle_mutex);
  if (throttled_gpu(device) == nullptr || kind != 1) return kNotSupported;
  *mhz = 1980;
  return kOk;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const std::lock_guard lock(throttle_mutex);
  if (throttled_gpu(device) == nullptr) return kNotSupported;
  *milliwatts = 650'000;
  return kOk;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  const std::lock_guard lock(throttle_mutex);
  if (throttled_gpu(device) == nullptr || sensor != 0) return kNotSupported;
  *degrees = 71;
  return kOk;
}

int nvmlDeviceGetGpuFabricInfoV(void* device, FabricInfo* info) {
  if (info->version != (sizeof(FabricInfo) | 2u << 24)) return 25;  // version mismatch
  if (fact_of(device, "fabric_state", &info->state) == kOk) {
    (void)fact_of(device, "fabric_status", &info->status);
    (void)fact_of(device, "fabric_health", &info->health);
    (void)fact_of(device, "fabric_clique", &info->clique);
    return kOk;
  }
  const std::lock_guard lock(throttle_mutex);
  for (const auto& [bus_id, gpu] : throttled()) {
    if (&gpu != device || !gpu.in_fabric) continue;
    std::memset(info->cluster, gpu.cluster, sizeof info->cluster);
    info->status = 0;
    info->clique = gpu.clique;
    info->state = 3;  // completed
    return kOk;
  }
  return kNotSupported;
}

int nvmlInit_v2() {
  const char* text = std::getenv("FAKE_NVML");
  if (text != nullptr && std::strcmp(text, "fails") == 0) return 9;
  ++opened;
  return kOk;
}
int nvmlShutdown() {
  return --opened < 0 ? kNotInitialised : kOk;
}
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : "an error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "999.1");
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  if (opened == 0) return kNotInitialised;
  *count = unsigned(world().gpus);
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= unsigned(world().gpus)) return kInvalid;
  *device = reinterpret_cast<void*>(uintptr_t(index) + 1);
  int unused = 0;
  const int result = fact_of(*device, "open", &unused);
  return result == kNotSupported ? kOk : result;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  put_bus_id(info, unsigned(index_of(device)));
  return kOk;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%d", int(index_of(device)));
  return kOk;
}
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::snprintf(text, size, "Fake GPU");
  return kOk;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = world().sm / 10;
  *minor = world().sm % 10;
  return kOk;
}
int nvmlDeviceGetNvLinkCapability(void*, unsigned link, int capability, unsigned* yes) {
  if (int(link) >= world().links) return kInvalid;
  *yes = capability == 0;
  return kOk;
}
// Not for compute capability 9.0 and later: the product must ask by field value there.
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* active) {
  if (world().sm >= 90) return kNotSupported;
  *active = int(link) < world().links;
  return kOk;
}
// The last link of GPU 1 is down.
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    value.result = kOk;
    value.value = 0;
    const bool down = index_of(device) == 1 && int(value.scope) == world().links - 1;
    unsigned set = 0;
    uint64_t wide = 0;
    if (fact_of(device, "field " + std::to_string(value.field), &wide) == kOk) {
      value.type = 3;  // of 64 bits
      value.value = wide;
      continue;
    }
    if (value.field == 165 && int(value.scope) >= world().links)
      value.result = kInvalid;
    else if (value.field == 165)
      value.value = down ? 0 : 1;
    else if (value.field == 91)
      value.value = unsigned(world().links);
    else if (value.field == 164 && fact_of(device, "link_MBps", &set) == kOk)
      value.value = set;
    else if (value.field == 230 && fact_of(device, "recovery_action", &set) == kOk)
      value.value = set;
    else if (value.field == 170)
      value.value = world().sm == 100 ? 5 : 0;
    else if (value.field == 171)
      value.value = 1;
    else if (value.field == 172)
      value.value = 44712;
    else if (value.field == 38 || value.field == 45 || value.field == 52 || value.field == 59) {
      value.type = 3;  // of 64 bits
      value.value = counter_of(device, value.field == 38   ? "nvlinks crc_flit"
                                       : value.field == 45 ? "nvlinks crc_data"
                                       : value.field == 52 ? "nvlinks replay"
                                                           : "nvlinks recovery");
    } else
      value.result = kNotSupported;
  }
  return kOk;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  const World made = world();
  std::memset(info, 0, sizeof *info);
  if (std::strcmp(made.kind, "hidden") == 0)
    std::snprintf(info->bus_id, sizeof info->bus_id, "FFFFFFFF:FF:FF.0");
  else if (std::strcmp(made.kind, "pair") == 0)
    put_bus_id(info, unsigned(index_of(device)) ^ 1);
  else
    std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:C%X:00.0", link % 4);
  return kOk;
}
// GPU 0 cannot write to GPU 1 behind switches.
int nvmlDeviceGetP2PStatus(void* from, void* to, int index, int* status) {
  const bool refused = std::strcmp(world().kind, "switch") == 0 && index == 1 &&
                       index_of(from) == 0 && index_of(to) == 1;
  *status = refused ? 5 : 0;
  return kOk;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *now = *pending = 0;
  (void)fact_of(device, "mig", now);
  (void)fact_of(device, "mig_pending", pending);
  return kOk;
}
}
