#include "runtime/communicator/device_opening.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cancel.h"
#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"

namespace collctl::runtime {
namespace {

Result<transport::DevicePointer> open(int ordinal, const kernels::cuda::Launcher& launcher,
                                      bool counts_waits) {
  COLL_INFO(init, "GPU {} : starting the CUDA driver and making a context", ordinal);
  COLL_ASSIGN(transport::DevicePointer device, transport::Device::open(ordinal));
  const int capability = device->facts().compute_capability;
  if (!launcher.runs_on(capability))
    return Error(ErrorCode::unavailable,
                 format("{} ({}) has compute capability {}.{}, for which this collctl has no "
                        "kernels (it has {})",
                        device->text(), device->facts().name, capability / 10, capability % 10,
                        launcher.architectures),
                 format("./dev package builds for every kind of GPU; cmake --preset release "
                        "-DCOLLCTL_CUDA_ARCHITECTURES={} for this one",
                        capability));
  // The device's context is this thread's.
  const int failed = launcher.prepare != nullptr ? launcher.prepare(counts_waits) : 0;
  if (failed != 0)
    return Error(ErrorCode::unavailable,
                 format("{} cannot load the kernels: {} ({})", device->text(),
                        launcher.error_text(failed), failed));
  return device;
}

}  // namespace

struct DeviceOpening::Shared {
  std::mutex mutex;
  std::condition_variable opened;
  std::optional<Result<transport::DevicePointer>> result;
  double seconds = 0;
  std::thread thread;
};

DeviceOpening::DeviceOpening(int device, const kernels::cuda::Launcher& launcher, bool counts_waits)
    : shared_(std::make_shared<Shared>()), device_(device) {
  shared_->thread = std::thread([shared = shared_, device, &launcher, counts_waits] {
    const int64_t start = now_ns();
    auto result = open(device, launcher, counts_waits);
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->seconds = double(now_ns() - start) * 1e-9;
    shared->opened.notify_all();
  });
}

DeviceOpening::~DeviceOpening() {
  std::unique_lock lock(shared_->mutex);
  const bool done = shared_->result.has_value();
  lock.unlock();
  if (done)
    shared_->thread.join();
  else
    shared_->thread.detach();
}

Result<transport::DevicePointer> DeviceOpening::wait(Deadline deadline) {
  const base::Uninterruptible driver;
  std::unique_lock lock(shared_->mutex);
  if (!base::wait_for(shared_->opened, lock, deadline, [&] { return shared_->result.has_value(); }))
    return Error(ErrorCode::deadline,
                 format("GPU {} is not open yet: the CUDA driver does not respond", device_),
                 "check nvidia-smi and the kernel log (Xid)");
  return std::move(*shared_->result);
}

double DeviceOpening::seconds() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->seconds;
}

}  // namespace collctl::runtime
