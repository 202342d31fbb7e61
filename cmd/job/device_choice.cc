#include "cmd/job/device_choice.h"

#include <algorithm>
#include <vector>

#include "base/drivers/nvml.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "kernels/cuda/launcher/launcher.h"
#include "launcher/hosts/placement.h"
#include "transport/device/device.h"

namespace collctl::cmd {
namespace {

using namespace base::drivers;

const char* gpus_word(int count) {
  return count == 1 ? "GPU" : "GPUs";
}

struct FoundDevice {
  int gpus = 0;
  std::vector<base::NvidiaGpu> named;  // of NVML; CUDA has looked at CUDA_VISIBLE_DEVICES already
  std::vector<int> capabilities;       // of the named ones: 90; 0: not known
  std::string why_not;
};

base::NvidiaGpu name_of(const Nvml& table, NvmlDevice device) {
  base::NvidiaGpu gpu;
  NvmlPciInfo pci{};
  if (table.pci_info(device, &pci) == kNvmlSuccess) gpu.bus_id = pci.bus_id;
  char uuid[96] = {};
  if (table.uuid != nullptr && table.uuid(device, uuid, sizeof uuid - 1) == kNvmlSuccess)
    gpu.uuid = uuid;
  return gpu;
}

FoundDevice ask_nvml(const Nvml& table) {
  FoundDevice found;
  unsigned count = 0;
  if (const NvmlReturn failed = table.device_count(&count); failed != kNvmlSuccess) {
    found.why_not = table.error_string != nullptr ? table.error_string(failed) : "NVML failed";
    return found;
  }
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device{};
    if (table.device_by_index(i, &device) != kNvmlSuccess) continue;
    ++found.gpus;
    found.named.push_back(name_of(table, device));
    int major = 0, minor = 0;
    const bool known = table.compute_capability != nullptr &&
                       table.compute_capability(device, &major, &minor) == kNvmlSuccess;
    found.capabilities.push_back(known ? major * 10 + minor : 0);
  }
  if (found.gpus == 0) found.why_not = "the driver finds no GPU";
  return found;
}

// Without NVML the driver itself is asked.
FoundDevice ask_cuda(const std::string& no_nvml) {
  FoundDevice found;
  const auto count = transport::Device::count();
  if (!count)
    found.why_not = count.error().message;
  else
    found.gpus = *count;
  if (found.gpus == 0 && found.why_not.empty()) found.why_not = no_nvml;
  return found;
}

FoundDevice find_gpus() {
  const Nvml& table = nvml();
  if (!table.missing.empty()) return ask_cuda(table.missing);
  const NvmlSession session;
  if (session) return ask_nvml(table);
  FoundDevice found;
  found.why_not =
      format("NVML: {}", table.error_string != nullptr ? table.error_string(session.result())
                                                       : "it does not start");
  return found;
}

}  // namespace

HostGpus local_gpus() {
  HostGpus local;
  local.host = base::this_host();
  local.visible = base::environment("CUDA_VISIBLE_DEVICES");
  local.there = base::nvidia_pci_devices();
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  if (!kernels.built) {
    local.why_not = kernels.why_not;
    return local;
  }
  const FoundDevice found = find_gpus();
  local.there = std::max(local.there, found.gpus);
  local.usable = found.gpus;
  local.why_not = found.why_not;
  if (found.named.empty()) return local;
  const std::vector<int> left = launcher::visible_gpus(local.visible, found.named);
  local.usable = int(left.size());
  if (left.empty())
    local.why_not = format("CUDA_VISIBLE_DEVICES={} leaves none of {} {}",
                           local.visible.value_or(""), found.gpus, gpus_word(found.gpus));
  for (const int gpu : left) {  // -1: a part of one
    const int capability = gpu < 0 ? 0 : found.capabilities[size_t(gpu)];
    if (capability == 0 || kernels.runs_on(capability)) continue;
    local.usable = 0;
    local.why_not = format(
        "this build's kernels ({}) do not run on GPU {}, of compute capability {}.{} "
        "(./dev package builds for every kind of GPU)",
        kernels.architectures, gpu, capability / 10, capability % 10);
    break;
  }
  return local;
}

namespace {

// The user, or who set the variable for him, wants no GPU there.
bool declined(const HostGpus& host) {
  return host.left_out || host.visible == "" || host.visible == "-1" ||
         host.visible == "NoDevFiles";  // Slurm's word
}

std::string why_declined(const HostGpus& host) {
  return host.left_out ? "the hostfile says devices=none"
                       : format("CUDA_VISIBLE_DEVICES={}, no GPU is to be used", *host.visible);
}

// Why no GPU of a host is usable that should have some; empty: it has none, and was not told so.
std::string trouble_of(const HostGpus& host) {
  if (host.usable > 0 || declined(host)) return "";
  if (host.visible && host.there == 0)
    return format("CUDA_VISIBLE_DEVICES={}, but it has no NVIDIA device", *host.visible);
  if (host.there == 0) return "";
  return format("it has {} NVIDIA {}, of which none can be used: {}", host.there,
                gpus_word(host.there), host.why_not);
}

constexpr const char* kOnCores = "use --device cpu to run on cores";

Error refusal(const HostGpus& host, std::string message, const std::string& hint) {
  Error error(ErrorCode::unavailable, std::move(message), hint);
  error.on(host.host);
  return error;
}

Result<DeviceChoice> choose_automatically(const std::vector<HostGpus>& hosts) {
  const HostGpus *with = nullptr, *without = nullptr, *unwanted = nullptr;
  for (const HostGpus& host : hosts) {
    if (const std::string trouble = trouble_of(host); !trouble.empty())
      return refusal(host, format("host {}: {}", host.host, trouble),
                     format("{}; collctl doctor says what is wrong with the GPUs", kOnCores));
    const HostGpus*& kind = host.usable > 0 ? with : without;
    if (kind == nullptr) kind = &host;
    if (unwanted == nullptr && declined(host)) unwanted = &host;
  }
  if (with != nullptr && without != nullptr) {
    Error error = refusal(*without,
                          format("host {} has {} {}, host {} has none for its ranks{}", with->host,
                                 with->usable, gpus_word(with->usable), without->host,
                                 declined(*without) ? ": " + why_declined(*without) : ""),
                          format("leave out one kind of host, or {}", kOnCores));
    error.cause = base::Cause::unlike;
    return error;
  }
  if (with != nullptr)
    return DeviceChoice{true, hosts.size() > 1 ? "every host has usable GPUs"
                                               : format("host {} has {} usable {}", with->host,
                                                        with->usable, gpus_word(with->usable))};
  if (unwanted != nullptr) return DeviceChoice{false, why_declined(*unwanted)};
  return DeviceChoice{
      false, hosts.size() > 1 ? "no host has an NVIDIA GPU" : "this host has no NVIDIA GPU"};
}

}  // namespace

Result<DeviceChoice> choose_device(DeviceRequest request, const std::vector<HostGpus>& hosts) {
  if (request == DeviceRequest::automatic) return choose_automatically(hosts);
  if (request == DeviceRequest::cpu) return DeviceChoice{false, "--device cpu"};
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  if (!kernels.built)
    return Error(ErrorCode::unavailable, format("--device cuda: {}", kernels.why_not),
                 "leave --device out, or use --device cpu");
  return DeviceChoice{true, "--device cuda"};
}

namespace {

Result<TaskSpec> settled_task(const TaskSpec& task, const DeviceChoice& choice, int ranks) {
  auto known = settled(task, {choice.on_gpus, choice.why, ranks});
  if (!known && !choice.on_gpus) known.error().hint += "; ranks are on CPU cores: " + choice.why;
  return known;
}

// Hosts are asked for their GPUs at start; a choice that these cannot change is made before.
Result<TaskSpec> settle_on_hosts(DeviceRequest request, LaunchOptions& launch,
                                 const ReadTask& read) {
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  launch.gpus_on_hosts = request != DeviceRequest::cpu && kernels.built;
  COLL_ASSIGN(const TaskSpec task, read(launch.ranks));
  if (launch.gpus_on_hosts) return task;
  if (request == DeviceRequest::automatic) {
    COLL_TRY(settled_task(task, {false, kernels.why_not}, launch.ranks));
    return task;
  }
  COLL_ASSIGN(const DeviceChoice choice, choose_device(request, {}));
  return settled_task(task, choice, launch.ranks);
}

// --device cuda looks at the host as well, where that is this one.
Result<DeviceChoice> choose_here(DeviceRequest request, const HostGpus& local) {
  if (request == DeviceRequest::cuda && local.usable == 0)
    return Error(ErrorCode::unavailable,
                 format("--device cuda: {}",
                        local.why_not.empty() ? "this host has no NVIDIA GPU" : local.why_not),
                 "leave --device out, or use --device cpu");
  return choose_device(request, {local});
}

}  // namespace

DeviceRequest interpret_device(const ParsedLine& line) {
  const std::string text = line.text("device");
  if (text == "auto") return DeviceRequest::automatic;
  return text == "cuda" ? DeviceRequest::cuda : DeviceRequest::cpu;
}

Result<TaskSpec> settle_line(const ParsedLine& line, LaunchOptions& launch, const ReadTask& read) {
  const DeviceRequest request = interpret_device(line);
  if (launch.launcher == LauncherKind::ssh) return settle_on_hosts(request, launch, read);
  // Mistakes in the line come before what this machine cannot.
  const int said = line.has("ranks") ? launch.ranks : 0;
  COLL_TRY(read(launch.joins() ? launch.join_size : said));
  const HostGpus local = request == DeviceRequest::cpu ? HostGpus{} : local_gpus();
  COLL_ASSIGN(const DeviceChoice choice, choose_here(request, local));
  COLL_TRY(check_shrink(launch, choice));
  if (choice.on_gpus) {
    launch.gpus = local.usable;
    const int most = int(line.number("ranks-per-host", local.usable));
    if (!line.has("ranks") && !launch.joins() && launch.hosts.hosts.empty())
      launch.ranks = std::min(most, local.usable);
  }
  int ranks = launch.joins() ? launch.join_size : launch.ranks;
  if (ranks == 0) ranks = choice.on_gpus ? local.usable : base::usable_cores();
  COLL_ASSIGN(const TaskSpec task, read(ranks));
  return settled_task(task, choice, ranks);
}

Status check_shrink(const LaunchOptions& launch, const DeviceChoice& choice) {
  if (!launch.shrink || !choice.on_gpus) return {};
  return Error(
      ErrorCode::usage,
      "--on-loss shrink with GPU ranks: what kernels that wait for a lost GPU leave in the "
      "others' memory is not known",
      "--device cpu measures with CPU ranks");
}

Status check_gpus(const std::string& host, int ranks, int gpus, bool share) {
  if (ranks <= gpus || share) return {};
  return Error(ErrorCode::unavailable,
               format("{} ranks on {}, which has {} {}: each rank drives one", ranks, host, gpus,
                      gpus_word(gpus)),
               format("use -n {}, or more hosts; --oversubscribe lets ranks share GPUs, --device "
                      "cpu needs none",
                      gpus));
}

}  // namespace collctl::cmd
