// NVML's facts of each GPU: how it is set, its NVLinks and fabric, and what runs on it.
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/bus_id.h"
#include "base/drivers/nvml.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/host_state.h"
#include "base/process_facts.h"

namespace collctl::base {
namespace drivers {
namespace {

constexpr unsigned kMostGpusRead = 256, kMostLinksRead = 36, kMostProcessesRead = 1024;
constexpr uint64_t kFirstPidNamespace = 0xEFFFFFFC;  // as Linux numbers it

std::string nvml_words(NvmlReturn result) {
  const Nvml& api = nvml();
  const char* text = api.error_string != nullptr ? api.error_string(result) : nullptr;
  return text != nullptr ? text : format("NVML error {}", result);
}

class GpuStateReading {
 public:
  GpuStateReading(NvmlDevice device, DeviceState& gpu, std::vector<std::string>& unread)
      : device_(device), gpu_(gpu), unread_(unread) {}

  void read() {
    char text[96] = {};
    if (reads("name", api_.name, text, unsigned(sizeof text - 1))) gpu_.model = text;
    if (reads("VBIOS", api_.vbios, text, unsigned(sizeof text - 1))) gpu_.add("vbios", text);
    int now = 0, pending = 0;
    if (reads("ECC mode", api_.ecc_mode, &now, &pending)) {
      add_switch("ecc", now);
      add_switch("ecc_pending", pending);
    }
    if (reads("persistence mode", api_.persistence, &now)) add_switch("persistence", now);
    if (reads("display", api_.display_active, &now)) add_switch("display", now);
    if (reads("retired pages", api_.pages_pending, &now)) add_switch("pages_pending", now);
    unsigned mig = 0, mig_pending = 0;
    if (reads("MIG mode", api_.mig_mode, &mig, &mig_pending)) {
      add_switch("mig", int(mig));
      add_switch("mig_pending", int(mig_pending));
    }
    number("power_limit_mW", api_.power_limit);
    number("power_default_mW", api_.default_power);
    number("clock_MHz", api_.set_clock, kNvmlClockSm);
    number("clock_default_MHz", api_.default_clock, kNvmlClockSm);
    if (const auto action = field(kNvmlFieldRecoveryAction, 0))
      gpu_.add("recovery_action", std::to_string(*action));
    links();
    fabric();
    processes();
  }

 private:
  // Whether the driver answers. A value that a GPU does not have is no trouble; a GPU that is lost
  // is reported once.
  bool good(NvmlReturn result, const char* what) {
    switch (result) {
      case kNvmlSuccess:
        return true;
      case kNvmlInvalid:
      case kNvmlNotSupported:
      case kNvmlNotFound:
      case kNvmlNoFunction:
      case kNvmlDeprecated:
        return false;
      case kNvmlLost:
      case kNvmlNeedsReset:
        if (gpu_.find("answer") == nullptr) gpu_.add("answer", nvml_words(result));
        return false;
      default:
        unread_.push_back(format("{}: {}: {}", gpu_.device, what, nvml_words(result)));
        return false;
    }
  }
  template <class Function, class... Values>
  bool reads(const char* what, Function function, Values... values) {
    return function != nullptr && good(function(device_, values...), what);
  }
  template <class Function, class... Which>
  void number(const char* name, Function function, Which... which) {
    unsigned value = 0;
    if (reads(name, function, which..., &value)) gpu_.add(name, std::to_string(value));
  }
  void add_switch(const char* name, int on) { gpu_.add(name, on != 0 ? "on" : "off"); }

  std::optional<uint32_t> field(uint32_t id, uint32_t scope) const {
    NvmlFieldValue value{};
    value.field = id;
    value.scope = scope;
    if (api_.field_values == nullptr || api_.field_values(device_, 1, &value) != kNvmlSuccess ||
        value.result != kNvmlSuccess)
      return std::nullopt;
    return value.value.number;
  }

  // GPUs from Hopper on report the state of a link as a field; asleep is up.
  std::optional<bool> link_up(uint32_t link, bool by_field) const {
    if (by_field) {
      const auto state = field(kNvmlFieldLinkState, link);
      return state ? std::optional(*state != 0) : std::nullopt;
    }
    int active = 0;
    if (api_.link_state == nullptr || api_.link_state(device_, link, &active) != kNvmlSuccess)
      return std::nullopt;
    return active != 0;
  }

  void links() {
    int major = 0, minor = 0;
    if (!reads("compute capability", api_.compute_capability, &major, &minor)) return;
    const uint32_t count = field(kNvmlFieldLinkCount, 0).value_or(major >= 9 ? 0 : 12);
    uint32_t all = 0, active = 0;
    std::optional<uint32_t> slowest;
    std::string down;
    for (uint32_t link = 0; link < std::min(count, kMostLinksRead); ++link) {
      const auto up = link_up(link, major >= 9);
      if (!up) continue;
      ++all;
      active += *up;
      if (!*up) down += format("{}{}", down.empty() ? "" : " ", link);
      const auto speed = *up ? field(kNvmlFieldLinkMbytes, link) : std::nullopt;
      if (speed && *speed > 0) slowest = std::min(slowest.value_or(*speed), *speed);
    }
    if (all == 0) return;
    gpu_.add("nvlinks", std::to_string(all));
    gpu_.add("nvlinks_active", std::to_string(active));
    if (!down.empty()) gpu_.add("nvlinks_down", down);
    if (slowest) gpu_.add("nvlink_MBps", std::to_string(*slowest));
  }

  void fabric() {
    NvmlFabricInfo info{};
    info.version = kNvmlFabricVersion2;
    if (api_.fabric_info == nullptr || api_.fabric_info(device_, &info) != kNvmlSuccess ||
        info.state == 0)
      return;  // it is in none, or the driver is older than that
    constexpr const char* kStates[] = {"", "not started", "in progress", "completed"};
    gpu_.add("fabric",
             info.state < std::size(kStates) ? kStates[info.state] : std::to_string(info.state));
    if (info.state != kNvmlFabricCompleted) return;
    gpu_.add("fabric_status", info.status == kNvmlSuccess ? "ok" : nvml_words(info.status));
    gpu_.add("fabric_health", std::to_string(info.health));
    gpu_.add("fabric_clique", std::to_string(info.clique));
    std::string cluster;
    for (const uint8_t byte : info.cluster_uuid) cluster += format("{:02x}", int(byte));
    gpu_.add("fabric_cluster", cluster);
  }

  std::vector<NvmlProcess> listed(NvmlReturn (*function)(NvmlDevice, unsigned*, NvmlProcess*),
                                  const char* what) {
    std::vector<NvmlProcess> list(64);
    auto count = unsigned(list.size());
    if (function == nullptr) return {};
    NvmlReturn result = function(device_, &count, list.data());
    if (result == kNvmlTooSmall) {
      list.resize(kMostProcessesRead);
      count = kMostProcessesRead;
      result = function(device_, &count, list.data());
    }
    if (!good(result, what)) return {};
    list.resize(std::min<size_t>(count, list.size()));
    return list;
  }

  // A program that computes and draws is in both lists, and in the way as any that computes.
  void processes() {
    const auto drawing = listed(api_.graphics_processes, "graphics processes");
    if (!drawing.empty()) gpu_.add("graphics_processes", std::to_string(drawing.size()));
    for (const NvmlProcess& process : listed(api_.compute_processes, "processes")) {
      if (process.pid == uint32_t(::getpid())) continue;
      // In a container these may be numbers of others' processes.
      const bool named = pid_namespace() == kFirstPidNamespace;
      std::string name = named ? process_name(int(process.pid)) : "";
      std::string memory;
      if (process.memory_bytes != ~0ull) memory = format(" {} MiB", process.memory_bytes >> 20);
      gpu_.add("process", format("{} {}{}", process.pid, name.empty() ? "?" : name, memory));
    }
  }

  const Nvml& api_ = nvml();
  const NvmlDevice device_;
  DeviceState& gpu_;
  std::vector<std::string>& unread_;
};

DeviceState& device_named(HostState& to, const std::string& name) {
  for (DeviceState& known : to.devices)
    if (known.kind == CounterOf::gpu && known.device == name) return known;
  DeviceState& made = to.devices.emplace_back();
  made.kind = CounterOf::gpu;
  made.device = name;
  return made;
}

}  // namespace
}  // namespace drivers

bool serves_others(const std::string& process) {
  constexpr const char* kServices[] = {" nvidia-cuda-mps", " nvidia-persiste", " nv-hostengine"};
  return std::ranges::any_of(
      kServices, [&](const char* service) { return process.find(service) != std::string::npos; });
}

std::map<std::string, std::string> gpu_users() {
  HostState state;
  read_gpu_states(state);
  std::map<std::string, std::string> users;
  for (const DeviceState& gpu : state.devices)
    for (const auto& fact : gpu.facts)
      if (fact.name == "process" && !serves_others(fact.value))
        users.try_emplace(gpu.device,
                          format("GPU {}: process {} is on it", gpu.device, fact.value));
  return users;
}

void read_gpu_states(HostState& to) {
  using namespace drivers;
  const Nvml& api = nvml();
  const bool gpus = std::ranges::any_of(
      to.devices, [](const DeviceState& each) { return each.kind == CounterOf::gpu; });
  if (!api.missing.empty()) {
    if (gpus) to.unread.push_back("NVML: " + api.missing);
    return;
  }
  const NvmlSession session;
  if (!session) {
    if (gpus) to.unread.push_back("NVML: " + nvml_words(session.result()));
    return;
  }
  unsigned count = 0;
  if (const NvmlReturn result = api.device_count(&count); result != kNvmlSuccess)
    to.unread.push_back("NVML cannot count GPUs: " + nvml_words(result));
  for (unsigned i = 0; i < count && i < kMostGpusRead; ++i) {
    NvmlDevice device = nullptr;
    NvmlPciInfo pci{};
    NvmlReturn result = api.device_by_index(i, &device);
    if (result == kNvmlSuccess) result = api.pci_info(device, &pci);
    if (result == kNvmlNoPermission) continue;  // handed to another container
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    const auto bus = result == kNvmlSuccess ? bus_number(pci.bus_id) : std::nullopt;
    DeviceState& gpu = device_named(to, bus ? bus_text(*bus) : format("GPU {}", i));
    if (result == kNvmlSuccess)
      GpuStateReading(device, gpu, to.unread).read();
    else
      gpu.add("answer", nvml_words(result));
  }
}

}  // namespace collctl::base
