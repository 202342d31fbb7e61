#include "transport/device/driver.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr const char* kNoDriverHint = "install NVIDIA's driver (nvidia-smi must work here)";

// After these the context, or the GPU itself, is of no use any more.
bool is_fatal(int code) {
  constexpr int kFatal[] = {kCudaEcc,
                            kCudaNvlink,
                            kCudaContained,
                            kCudaIllegalAddress,
                            702,  // a kernel ran into the display's watchdog
                            709,  // the context was destroyed
                            710,  // assert
                            714,
                            715,
                            716,
                            717,
                            718,
                            kCudaLaunchFailed,
                            721,  // tensor memory leak
                            kCudaUnknown};
  return std::find(std::begin(kFatal), std::end(kFatal), code) != std::end(kFatal);
}

const char* hint_of(int code) {
  switch (code) {
    case 3:
    case kCudaUnknown:
    case kCudaNoDevice:
      return "check nvidia-smi and the kernel log (dmesg | grep -i NVRM)";
    case 46:  // device unavailable
      return "GPU is in exclusive-process mode and in use (nvidia-smi -q -d COMPUTE shows the "
             "mode, "
             "nvidia-smi the processes)";
    case kCudaEcc:
    case kCudaNvlink:
    case kCudaContained:
      return "the GPU or its NVLink has a hardware error: see nvidia-smi -q and dmesg, reset or "
             "replace it";
    case 802:  // system not ready
      return "the NVSwitches are not set up: is nvidia-fabricmanager running, in the driver's "
             "version?";
    case 803:
      return "the libcuda.so.1 that was found does not match the kernel driver (a compat package, "
             "or an update without reboot)";
    default:
      return "";
  }
}

}  // namespace

std::string driver_word(int code) {
  const Cuda& api = cuda();
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.error_name != nullptr) api.error_name(code, &name);
  if (api.error_string != nullptr) api.error_string(code, &text);
  if (name == nullptr) return format("CUDA error {}", code);
  return text == nullptr ? std::string(name) : format("{}: {}", name, text);
}

Error driver_error(const std::string& gpu, std::string_view what, int code) {
  return {is_fatal(code) ? ErrorCode::lost : ErrorCode::unavailable,
          format("{}: {}: {}", gpu, what, driver_word(code)), hint_of(code)};
}

Error memory_error(const Device& device, std::string_view what, uint64_t bytes, int code) {
  if (code != kCudaOutOfMemory) return driver_error(device.text(), what, code);
  return {ErrorCode::unavailable,
          format("{}: {}: {} bytes are needed, {} of {} are free ({})", device.text(), what, bytes,
                 device.free_bytes(), device.facts().memory_bytes, driver_word(code)),
          "stop what else uses this GPU (nvidia-smi shows it), or use smaller sizes and buffers "
          "(--max-bytes, COLLCTL_BUFFSIZE, --channels)"};
}

Status start_driver() {
  const Cuda& api = cuda();
  if (!api.rank_missing.empty())
    return Error(ErrorCode::unavailable, format("GPUs cannot be used here: {}", api.rank_missing),
                 kNoDriverHint);
  const int started = api.init(0);
  if (started == kCudaSuccess || started == kCudaNoDevice) return {};
  Error error = driver_error("the CUDA driver", "start", started);
  error.code = ErrorCode::unavailable;
  if (error.hint.empty()) error.hint = kNoDriverHint;
  return error;
}

}  // namespace collctl::transport
