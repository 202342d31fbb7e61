// What happens after the launch: waiting for the GPU, and the thread that looks after it.
#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "runtime/executor_cpu.h"
#include "runtime/executor_cuda.h"

namespace collctl::runtime {
namespace {

using kernels::Report;
using kernels::ReportCode;
using transport::DeviceStream;

constexpr int64_t kLookNs = 1'000'000;        // how often the thread looks
constexpr int64_t kRestAfterNs = 50'000'000;  // how long it goes on when nothing is under way
constexpr double kDrainSeconds = 10;          // kernels that are told to give up take far less
constexpr int64_t kMarkEveryNs = 1'000'000'000;
constexpr int64_t kMarkSlackNs = 10'000'000'000;
constexpr double kSlowestBytesPerNs = 0.01;  // 10 MB/s: slower than any network we run on
constexpr int64_t kSpinNs = 5'000'000;       // a wait that takes longer sleeps in between
constexpr int64_t kSleepNs = 100'000;

ReportCode code_of(const Report& report) {
  return std::atomic_ref<ReportCode>(const_cast<ReportCode&>(report.code))
      .load(std::memory_order_acquire);
}

}  // namespace

bool CudaExecutor::given_up() const {
  return std::any_of(reports_, reports_ + kernels::kMaxChannels,
                     [](const Report& r) { return code_of(r) != ReportCode::none; });
}

// The one that says most: one of its own before those that followed the abort word.
Error CudaExecutor::first_report() const {
  const Report* best = nullptr;
  for (const Report* r = reports_; r != reports_ + kernels::kMaxChannels; ++r) {
    if (code_of(*r) == ReportCode::none) continue;
    if (best == nullptr || code_of(*best) == ReportCode::aborted) best = r;
  }
  return error_from_report(*best, options_.op_timeout_s);
}

// --- the thread that waits ---

Status CudaExecutor::wait(const DeviceStream& stream) {
  if (capturing(stream))
    return Error(ErrorCode::usage, "the stream records a graph: end that before waiting for it");
  const int64_t start = now_ns();
  int64_t give_up_ns = 0;
  while (true) {
    Result<bool> idle = stream.idle();
    if (!idle) {
      options_.on_failure(device_error(std::move(idle.error())));
      return {};
    }
    if (*idle) break;
    const int64_t now = now_ns();
    if (std::atomic_ref<uint32_t>(*abort_word_).load(std::memory_order_acquire) != 0) {
      if (give_up_ns == 0) give_up_ns = now + int64_t(kDrainSeconds * 1e9);
      if (now > give_up_ns)
        return device_error(
            Error(ErrorCode::lost, format("{} does not end its kernels, {:g} s after they were "
                                          "told to",
                                          options_.device->text(), kDrainSeconds)));
    }
    if (now - start < kSpinNs)
      base::yield_thread();
    else
      base::sleep_until(Deadline::after_ns(kSleepNs));
  }
  return given_up() ? settle() : Status();
}

// Kernels have ended and said why: the watching thread passes it on.
Status CudaExecutor::settle() {
  std::unique_lock lock(mutex_);
  look_now_ = true;
  changed_.notify_all();
  const Deadline deadline = Deadline::after_seconds(2 * kDrainSeconds);
  if (base::wait_for(changed_, lock, deadline, [&] { return told_; })) return {};
  return device_error(first_report());
}

Status CudaExecutor::drain(Deadline deadline) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (capturing_ != nullptr)
        return Error(ErrorCode::usage,
                     "a stream of this communicator records a graph: end it first");
      if (last_ == nullptr) return {};
      Result<bool> idle = last_->idle();
      if (!idle) return device_error(std::move(idle.error()));
      if (*idle) return {};
    }
    if (deadline.passed())
      return device_error(Error(ErrorCode::deadline, format("operations are still under way on {}",
                                                            options_.device->text())));
    base::sleep_until(Deadline::after_ns(kSleepNs));
  }
}

void CudaExecutor::stand_still() const {
  const Deadline deadline = Deadline::after_seconds(3 * options_.op_timeout_s + kDrainSeconds);
  while (std::atomic_ref<uint32_t>(*abort_word_).load(std::memory_order_acquire) == 0 &&
         !deadline.passed())
    base::sleep_until(Deadline::after_ms(1));
}

// --- the thread that watches ---

void CudaExecutor::watch() {
  base::log_set_thread_device(options_.rank);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (busy_ || look_now_) {
      look_now_ = false;
      look(lock);
      base::wait_for(changed_, lock, Deadline::after_ns(kLookNs),
                     [&] { return stopping_ || look_now_; });
    } else {
      base::wait_for(changed_, lock, Deadline::after_seconds(60),
                     [&] { return stopping_ || busy_ || look_now_; });
    }
  }
}

void CudaExecutor::look(std::unique_lock<std::mutex>& lock) {
  if (!told_ && given_up()) return tell(lock, {});
  if (capturing_ != nullptr)
    return;  // nothing is under way, and a question would spoil the capture
  Result<bool> idle = last_ != nullptr ? last_->idle() : Result<bool>(true);
  if (!idle) return tell(lock, device_error(std::move(idle.error())));
  const int64_t now = now_ns();
  if (!*idle) {
    idle_since_ns_ = 0;
    return look_at_marker(lock, now);
  }
  if (idle_since_ns_ == 0 || seen_launches_ != launched_) idle_since_ns_ = now;
  seen_launches_ = launched_;
  queued_bytes_ = 0;
  marked_ = false;
  if (now - idle_since_ns_ > kRestAfterNs) rest();
}

void CudaExecutor::rest() {
  busy_ = false;
  tell_proxy(false);
}

// Kernels end by data, abort word or their own deadline. What has been queued and does not end at
// all is a GPU that stands still.
void CudaExecutor::look_at_marker(std::unique_lock<std::mutex>& lock, int64_t now) {
  if (marked_) {
    const Result<bool> passed = marker_.done();
    if (!passed) return;  // the question whether the stream is idle fails as well
    if (*passed)
      marked_ = false;
    else if (now > marker_limit_ns_)
      return tell(
          lock, device_error(Error(ErrorCode::deadline,
                                   format("{} has not ended what was queued {:.0f} s ago, and "
                                          "its kernels do not say why",
                                          options_.device->text(), double(now - marked_ns_) * 1e-9),
                                   "look at nvidia-smi and at the kernel's log (Xid)")));
  }
  if (marked_ || now - marked_ns_ < kMarkEveryNs) return;
  if (!marker_.record(last_->get())) return;  // likewise
  marked_ = true;
  marked_ns_ = now;
  marker_limit_ns_ = now + int64_t(options_.op_timeout_s * 1e9) + kMarkSlackNs +
                     int64_t(double(queued_bytes_) / kSlowestBytesPerNs);
}

// Tells the communicator, once: `device` when the GPU failed, else what kernels reported as soon as
// all of them have.
void CudaExecutor::tell(std::unique_lock<std::mutex>& lock, std::optional<Error> device) {
  busy_ = false;
  if (told_) return;
  const Deadline ended = Deadline::after_seconds(kDrainSeconds);
  while (!device && last_ != nullptr && capturing_ == nullptr && !stopping_ && !ended.passed()) {
    const Result<bool> idle = last_->idle();
    if (!idle || *idle) break;
    base::wait_for(changed_, lock, Deadline::after_ns(kLookNs), [&] { return stopping_; });
  }
  lock.unlock();
  options_.on_failure(device ? std::move(*device) : first_report());
  lock.lock();
  told_ = true;
  changed_.notify_all();
  tell_proxy(false);
}

}  // namespace collctl::runtime
