// After the launch: waiting for the GPU, and the thread that looks after it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "runtime/executor/cpu.h"
#include "runtime/executor/cuda.h"

namespace collctl::runtime {
namespace {

using kernels::Report;
using kernels::ReportCode;
using transport::DeviceStream;

constexpr int64_t kWatchNs = 1'000'000;       // how often the thread looks
constexpr int64_t kAskNs = 20'000'000;        // ... at the device itself, while it gets work
constexpr int64_t kRestAfterNs = 50'000'000;  // how long it goes on when nothing is in flight
// Kernels that are told to abort take far less; each that is queued starts once for that.
constexpr double kDrainSeconds = 10, kDrainSecondsOfLaunch = 0.005;
constexpr double kGatherSeconds = 1;                // for the reports of one rank's channels
constexpr int64_t kLongestEveryNs = 1'000'000'000;  // between two marks, and two looks at counters
constexpr int64_t kSlackNs = 1'000'000'000;
constexpr int64_t kSettleSpinNs = 5'000'000;  // a wait that takes longer sleeps in between
constexpr int64_t kSleepNs = 100'000;

ReportCode code_of(const Report& report) {
  return std::atomic_ref<ReportCode>(const_cast<ReportCode&>(report.code))
      .load(std::memory_order_acquire);
}

// Word by word, as it may be written meanwhile.
kernels::WaitNote copy_of(kernels::WaitNote& note) {
  std::array<uint64_t, sizeof(note) / sizeof(uint64_t)> words;
  auto* const from = reinterpret_cast<uint64_t*>(&note);
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = std::atomic_ref<uint64_t>(from[i]).load(std::memory_order_relaxed);
  return std::bit_cast<kernels::WaitNote>(words);
}

}  // namespace

bool CudaExecutor::kernel_reported() const {
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

// How long a GPU with work may go without a sign: kernels end their own waits by then and say why.
int64_t CudaExecutor::patience_ns() const {
  return int64_t(options_.op_timeout_s * 1.125e9) + kSlackNs;
}

int64_t CudaExecutor::drain_ns() {
  const std::lock_guard lock(mutex_);
  return int64_t((kDrainSeconds + kDrainSecondsOfLaunch * double(queued_launches_)) * 1e9);
}

// --- who waits for whom ---

bool CudaExecutor::in_flight() const {
  const std::lock_guard lock(mutex_);
  return busy_ && idle_since_ns_ == 0;
}

// A note is of a wait that goes on when it is written anew meanwhile.
std::vector<kernels::WaitLog::Now> CudaExecutor::waits() const {
  constexpr int64_t kLookNs = 5'000'000;  // kernels look every millisecond or more often
  const auto stamp = [&](int channel) {
    return std::atomic_ref<int64_t>(notes_[channel].stamp_ns).load(std::memory_order_acquire);
  };
  std::array<int64_t, kernels::kMaxChannels> before;
  for (int c = 0; c < kernels::kMaxChannels; ++c) before[size_t(c)] = stamp(c);
  base::sleep_until(Deadline::after_ns(kLookNs));
  std::vector<kernels::WaitLog::Now> list;
  for (int c = 0; c < kernels::kMaxChannels; ++c) {
    const int64_t at = stamp(c);
    if (at == before[size_t(c)]) continue;
    const kernels::WaitNote note = copy_of(notes_[c]);
    list.push_back({note.wait, now_ns() - std::max<int64_t>(at - note.since_ns, 0)});
  }
  return list;
}

std::optional<kernels::WindowWait> CudaExecutor::window_wait() {
  constexpr int64_t kShownFromNs = 160'000'000, kBetweenNs = 10'000'000;
  const std::lock_guard one(window_mutex_);
  const auto may_ask =
      [&] {  // nothing is in flight during a capture, and a question would spoil it
        const std::lock_guard lock(mutex_);
        return capturing_ == nullptr;
      };
  uint64_t number = 0;
  while (may_ask()) {
    std::optional<kernels::WindowWait> wait = window_look_.look(*options_.launcher, window_);
    if (!wait || (number != 0 && wait->number != number)) break;
    if (now_ns() - wait->since_ns >= kShownFromNs) return wait;
    number = wait->number;
    base::sleep_until(Deadline::after_ns(kBetweenNs));
  }
  return {};
}

Result<std::vector<kernels::PeerWait>> CudaExecutor::wait_times() {
  std::vector<kernels::PeerWait> times;
  if (wait_times_.data == nullptr || capturing_ != nullptr) return times;
  COLL_TRY(options_.device->use());
  times.resize(size_t(options_.nranks));
  const uint64_t bytes = times.size() * sizeof(times[0]);
  COLL_TRY(setup_stream_.copy(read_wait_times_.data(), wait_times_.data, bytes));
  COLL_TRY(setup_stream_.synchronize(Deadline::after_ns(patience_ns())));
  std::memcpy(times.data(), read_wait_times_.data(), bytes);
  for (kernels::PeerWait& peer : times) {
    peer.recv_ns /= kernels::cuda::kWaitParts;
    peer.send_ns /= kernels::cuda::kWaitParts;
  }
  return times;
}

// --- the thread that waits ---

Status CudaExecutor::wait(const DeviceStream& stream) {
  if (capturing(stream))
    return Error(ErrorCode::usage, "the stream records a graph: end that before waiting for it");
  const int64_t start = now_ns();
  int64_t told_ns = 0, drain = 0;  // when it was told to stop, how long that may take
  bool refused = false;
  while (true) {
    Result<bool> idle = stream.idle();
    if (!idle) {
      options_.on_failure(broken(std::move(idle.error())));
      // On a GPU that is of no use any more nothing runs; one that answers again ends its kernels.
      if (std::exchange(refused, true)) return {};
      continue;
    }
    if (*idle) break;
    const int64_t now = now_ns();
    if (aborted()) {
      if (told_ns == 0) {
        told_ns = now;
        drain = drain_ns();
      }
      if (now - told_ns > drain)
        return device_error(
            Error(ErrorCode::lost, format("{} has not ended its kernels, {:.0f} s after the abort",
                                          options_.device->text(), double(drain) * 1e-9)));
    }
    if (now - start < kSettleSpinNs)
      base::yield_thread();
    else
      base::sleep_until(Deadline::after_ns(kSleepNs));
  }
  return kernel_reported() ? settle() : Status();
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
      if (!idle) return broken(std::move(idle.error()));
      if (*idle) return {};
    }
    if (deadline.passed())
      return device_error(
          Error(ErrorCode::deadline,
                format("operations are still in progress on {}", options_.device->text())));
    base::sleep_until(Deadline::after_ns(kSleepNs));
  }
}

void CudaExecutor::hang() const {
  const Deadline deadline = Deadline::after_seconds(3 * options_.op_timeout_s + kDrainSeconds);
  while (!aborted() && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
}

// --- the thread that watches ---

void CudaExecutor::watch() {
  base::log_set_thread_device(options_.rank);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (busy_ || look_now_) {
      look_now_ = false;
      look(lock);
      base::wait_for(changed_, lock, Deadline::after_ns(kWatchNs),
                     [&] { return stopping_ || look_now_; });
    } else {
      base::wait_for(changed_, lock, Deadline::after_seconds(60),
                     [&] { return stopping_ || busy_ || look_now_; });
    }
  }
}

void CudaExecutor::look(std::unique_lock<std::mutex>& lock) {
  if (!told_ && kernel_reported()) return tell(lock, {});
  if (capturing_ != nullptr)  // nothing is in flight, and a question would spoil the capture
    return sign_ns_.store(now_ns(), std::memory_order_release);
  const bool launching = launching_.load(std::memory_order_acquire);
  // A question to the driver makes a launch of the same moment wait, and who sleeps for that sleeps
  // long. While work is being queued it can wait itself.
  const int64_t now = now_ns();
  if ((launching || seen_launches_ != launched_) && now - asked_ns_ < kAskNs) {
    seen_launches_ = launched_;
    idle_since_ns_ = 0;
    return;
  }
  asked_ns_ = now;
  Result<bool> idle = last_ != nullptr ? last_->idle() : Result<bool>(true);
  if (!idle) return tell(lock, broken(std::move(idle.error())));
  if (!*idle || launching) {
    idle_since_ns_ = 0;
    if (*idle) sign_ns_.store(now, std::memory_order_release);
    Status well = *idle ? Status() : look_for_signs(now);
    if (!well) tell(lock, broken(std::move(well.error())));
    return;
  }
  sign_ns_.store(now, std::memory_order_release);
  if (idle_since_ns_ == 0 || seen_launches_ != launched_) idle_since_ns_ = now;
  seen_launches_ = launched_;
  largest_bytes_ = queued_launches_ = 0;
  marked_ = false;
  if (now - idle_since_ns_ > kRestAfterNs) rest();
}

void CudaExecutor::rest() {
  busy_ = false;
  tell_proxy(false);
}

// Kernels end by data, abort word or their own deadline; a queue of them ends however long it is.
// The GPU shows that it gets on by an event that passes, or by the kernels' counters, which are
// looked at when the event is late. Without either it stands still. An operation may move so much
// that its counters do not change for long: at 1 GB/s a byte takes a nanosecond.
Status CudaExecutor::look_for_signs(int64_t now) {
  const int64_t patience = patience_ns() + int64_t(largest_bytes_);
  const int64_t every = std::min(kLongestEveryNs, patience / 16);
  const auto silent = [&] { return now - sign_ns_.load(std::memory_order_acquire); };
  bool sign = false;
  if (marked_) {
    COLL_ASSIGN(sign, marker_.done());
    marked_ = !sign;
  }
  if (!sign && silent() > patience / 4 && now - pulse_ns_ > every) {
    pulse_ns_ = now;
    COLL_ASSIGN(sign, pulse_->beats());
  }
  if (sign) sign_ns_.store(now, std::memory_order_release);
  if (silent() > patience)
    return Error(ErrorCode::deadline,
                 format("{} made no progress with its queue for {:.0f} s, and its kernels do "
                        "not say why",
                        options_.device->text(), double(silent()) * 1e-9),
                 "check nvidia-smi and the kernel log (Xid)");
  if (marked_ || now - marked_ns_ < every) return {};
  COLL_TRY(marker_.record(last_->get()));
  marked_ = true;
  marked_ns_ = now;
  return {};
}

// Tells the communicator, once: `device` when the GPU failed, else what kernels reported.
void CudaExecutor::tell(std::unique_lock<std::mutex>& lock, std::optional<Error> device) {
  busy_ = false;
  if (told_) return;
  // This rank's own kernels first, so that all channels have reported soon; the peers hear of it
  // from on_failure, and wrong data must not go further meanwhile.
  abort();
  const bool urgent = device || first_report().code == ErrorCode::bad_data;
  const Deadline ended = Deadline::after_seconds(urgent ? 0 : kGatherSeconds);
  while (last_ != nullptr && capturing_ == nullptr && !stopping_ && !ended.passed()) {
    const Result<bool> idle = last_->idle();
    if (!idle || *idle) break;
    base::wait_for(changed_, lock, Deadline::after_ns(kWatchNs), [&] { return stopping_; });
  }
  lock.unlock();
  options_.on_failure(device ? std::move(*device) : first_report());
  lock.lock();
  told_ = true;
  changed_.notify_all();
  tell_proxy(false);
}

}  // namespace collctl::runtime
