#include "cmd/device_choice.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/drivers/nvml.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "kernels/cuda/launch.h"
#include "transport/device/device.h"

namespace collctl::cmd {
namespace {

using namespace base::drivers;

struct Found {
  int gpus = 0;
  int oldest = 0, newest = 0;  // compute capability: 90
  std::string why_not;
};

Found ask_nvml(const Nvml& table) {
  Found found;
  unsigned count = 0;
  if (const NvmlReturn failed = table.device_count(&count); failed != kNvmlSuccess) {
    found.why_not = table.error_string != nullptr ? table.error_string(failed) : "NVML failed";
    return found;
  }
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device{};
    if (table.device_by_index(i, &device) != kNvmlSuccess) continue;
    ++found.gpus;
    int major = 0, minor = 0;
    if (table.compute_capability == nullptr ||
        table.compute_capability(device, &major, &minor) != kNvmlSuccess)
      continue;
    const int capability = major * 10 + minor;
    found.newest = std::max(found.newest, capability);
    found.oldest = found.oldest == 0 ? capability : std::min(found.oldest, capability);
  }
  if (found.gpus == 0) found.why_not = "the driver finds no GPU";
  return found;
}

// Without NVML the driver itself is asked.
Found ask_cuda(const std::string& no_nvml) {
  Found found;
  const auto count = transport::Device::count();
  if (!count)
    found.why_not = count.error().message;
  else
    found.gpus = *count;
  if (found.gpus == 0 && found.why_not.empty()) found.why_not = no_nvml;
  return found;
}

Found find_gpus() {
  const Nvml& table = nvml();
  if (!table.missing.empty()) return ask_cuda(table.missing);
  if (const NvmlReturn failed = table.init(); failed != kNvmlSuccess) {
    Found found;
    found.why_not = format("NVML: {}", table.error_string != nullptr ? table.error_string(failed)
                                                                     : "it does not start");
    return found;
  }
  Found found = ask_nvml(table);
  table.shutdown();
  return found;
}

}  // namespace

int visible_gpus(const std::string& text, int found) {
  std::set<std::string> seen;
  for (size_t at = 0; at <= text.size() && int(seen.size()) < found;) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string entry = text.substr(at, end - at);
    entry.erase(std::remove_if(entry.begin(), entry.end(), [](char c) { return c == ' '; }),
                entry.end());
    at = end + 1;
    const bool number = !entry.empty() && entry.size() < 6 &&
                        std::all_of(entry.begin(), entry.end(),
                                    [](char c) { return std::isdigit(uint8_t(c)) != 0; });
    const bool named = entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0;
    if (number ? std::stoi(entry) >= found : !named) break;
    if (!seen.insert(entry).second) return 0;  // the driver refuses a GPU that stands there twice
  }
  return int(seen.size());
}

LocalGpus local_gpus() {
  const kernels::cuda::Launcher& kernels = kernels::cuda::launcher();
  if (!kernels.built) return {0, kernels.why_not};
  const Found found = find_gpus();
  if (found.gpus == 0) return {0, found.why_not};
  LocalGpus local{found.gpus, ""};
  if (const auto visible = base::environment("CUDA_VISIBLE_DEVICES")) {
    local.count = visible_gpus(*visible, found.gpus);
    if (local.count == 0)
      return {0, format("CUDA_VISIBLE_DEVICES={} leaves none of {} GPUs", *visible, found.gpus)};
  }
  if (found.oldest != 0 && !kernels.runs_on(found.oldest))
    return {0, format("this build's kernels ({}) do not run on compute capability {}.{}",
                      kernels.architectures, found.oldest / 10, found.oldest % 10)};
  return local;
}

Result<DeviceChoice> choose_device(DeviceWish wish) {
  DeviceChoice choice;
  if (wish == DeviceWish::cpu) return choice;
  const LocalGpus local = local_gpus();
  choice.on_gpus = local.why_not.empty() && local.count > 0;
  choice.gpus = local.count;
  if (!choice.on_gpus && wish == DeviceWish::cuda)
    return Error(ErrorCode::unavailable, format("--device cuda: {}", local.why_not),
                 "leave --device out, or use --device cpu");
  choice.why = choice.on_gpus ? format("ranks are on GPUs: this host has {}", choice.gpus)
                              : format("ranks are on CPU cores: {}", local.why_not);
  return choice;
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
