// Whether CUDA starts on a host: what a rank of GPUs does first there, as `run` would say it.
#include "base/format.h"
#include "base/record.h"
#include "cmd/doctor/doctor.h"
#include "cmd/job/device_choice.h"
#include "transport/device/device.h"

namespace collctl::cmd {

constexpr const char* kNvidiaSmi =
    "nvidia-smi must work there: after an update of the driver load its new modules or restart the "
    "host, else see the kernel log (dmesg | grep -i NVRM)";

static void fields(Record& io, GpuTrouble& trouble) {
  io.field("message", trouble.message);
  io.field("hint", trouble.hint);
}

Result<std::string> gpus_answer() {
  GpuTrouble trouble;
  const HostGpus here = local_gpus();
  if (const auto choice = choose_device(DeviceRequest::automatic, {here}); !choice) {
    trouble = {choice.error().message, kNvidiaSmi};
  } else if (choice->on_gpus) {
    const auto count = transport::Device::count();
    if (!count)
      trouble = {count.error().message, count.error().hint};
    else if (*count == 0)
      trouble = {format("CUDA finds none of {} GPUs", here.usable), kNvidiaSmi};
  }
  return json_of(trouble);
}

Result<GpuTrouble> gpus_of_answer(const std::string& text) {
  auto trouble = record_of<GpuTrouble>(text);
  if (trouble) return trouble;
  return Error(ErrorCode::launch,
               format("what it says of its GPUs cannot be read: {}", trouble.error().message),
               "is the same version of collctl there? --stage always sends this one");
}

}  // namespace collctl::cmd
