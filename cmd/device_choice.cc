#include "cmd/device_choice.h"

#include <algorithm>
#include <vector>

#include "base/drivers/nvml.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "kernels/cuda/launch.h"
#include "launcher/placement.h"
#include "transport/device/device.h"

namespace collctl::cmd {
namespace {

using namespace base::drivers;

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
  if (const NvmlReturn failed = table.init(); failed != kNvmlSuccess) {
    FoundDevice found;
    found.why_not = format("NVML: {}", table.error_string != nullptr ? table.error_string(failed)
                                                                     : "it does not start");
    return found;
  }
  FoundDevice found = ask_nvml(table);
  table.shutdown();
  return found;
}

}  // namespace

LocalGpus local_gpus() {
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  if (!kernels.built) return {0, kernels.why_not};
  const FoundDevice found = find_gpus();
  if (found.gpus == 0) return {0, found.why_not};
  LocalGpus local{found.gpus, ""};
  if (found.named.empty()) return local;
  const auto visible = base::environment("CUDA_VISIBLE_DEVICES");
  const std::vector<int> left = launcher::visible_gpus(visible, found.named);
  local.count = int(left.size());
  if (left.empty())
    return {0, format("CUDA_VISIBLE_DEVICES={} leaves none of {} GPUs", visible.value_or(""),
                      found.gpus)};
  for (const int gpu : left) {  // -1: a part of one
    const int capability = gpu < 0 ? 0 : found.capabilities[size_t(gpu)];
    if (capability != 0 && !kernels.runs_on(capability))
      return {0,
              format("this build's kernels ({}) do not run on GPU {}, of compute capability {}.{}",
                     kernels.architectures, gpu, capability / 10, capability % 10)};
  }
  return local;
}

namespace {

Result<DeviceChoice> without_gpus(DeviceWish wish, const std::string& why_not) {
  if (wish == DeviceWish::cpu) return DeviceChoice{};
  if (wish == DeviceWish::cuda)
    return Error(ErrorCode::unavailable, format("--device cuda: {}", why_not),
                 "leave --device out, or use --device cpu");
  return DeviceChoice{false, 0, format("ranks are on CPU cores: {}", why_not)};
}

}  // namespace

Result<DeviceChoice> choose_device(DeviceWish wish) {
  if (wish == DeviceWish::cpu) return DeviceChoice{};
  const LocalGpus local = local_gpus();
  if (!local.why_not.empty() || local.count == 0) return without_gpus(wish, local.why_not);
  return DeviceChoice{true, local.count, format("ranks are on GPUs: {} of this host", local.count)};
}

namespace {

Result<SettledLine> settled_line(const BenchSpec& spec, const DeviceChoice& choice) {
  auto known = settled(spec, choice.on_gpus);
  if (!known) {
    if (!choice.why.empty()) known.error().hint += "; " + choice.why;
    return std::move(known.error());
  }
  return SettledLine{std::move(*known), choice.why};
}

// What the hosts have is asked at start; what they cannot change is known before.
Result<SettledLine> settle_on_hosts(const ParsedLine& line, DeviceWish wish,
                                    LaunchOptions& launch) {
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  launch.gpus_on_hosts = wish != DeviceWish::cpu && kernels.built;
  COLL_ASSIGN(BenchSpec spec, interpret_bench(line, launch.ranks));
  if (launch.gpus_on_hosts) return SettledLine{std::move(spec), ""};
  COLL_ASSIGN(const DeviceChoice none, without_gpus(wish, kernels.why_not));
  return settled_line(spec, none);
}

}  // namespace

Result<SettledLine> settle_line(const ParsedLine& line, LaunchOptions& launch) {
  COLL_ASSIGN(const DeviceWish wish, interpret_device(line));
  if (launch.launcher == LauncherKind::ssh) return settle_on_hosts(line, wish, launch);
  // Mistakes in the line come before what this machine cannot.
  const int said = line.has("ranks") ? launch.ranks : 0;
  COLL_TRY(interpret_bench(line, launch.joins() ? launch.join_size : said));
  COLL_ASSIGN(const DeviceChoice choice, choose_device(wish));
  if (choice.on_gpus) {
    launch.gpus = choice.gpus;
    const int most = int(line.number("ranks-per-host", choice.gpus));
    if (!line.has("ranks") && !launch.joins() && launch.hosts.hosts.empty())
      launch.ranks = std::min(most, choice.gpus);
  }
  int ranks = launch.joins() ? launch.join_size : launch.ranks;
  if (ranks == 0) ranks = choice.on_gpus ? choice.gpus : base::usable_cores();
  COLL_ASSIGN(const BenchSpec spec, interpret_bench(line, ranks));
  return settled_line(spec, choice);
}

Status check_gpus(const std::string& host, int ranks, int gpus, bool share) {
  if (ranks <= gpus || share) return {};
  return Error(ErrorCode::unavailable,
               format("{} ranks on {}, which has {} {}: each rank drives one", ranks, host, gpus,
                      gpus == 1 ? "GPU" : "GPUs"),
               format("use -n {}, or more hosts; --oversubscribe lets ranks share GPUs, --device "
                      "cpu needs none",
                      gpus));
}

}  // namespace collctl::cmd
