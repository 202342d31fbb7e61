#include "runtime/communicator/first_error.h"

#include "base/peer_closed.h"
#include "base/wait.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/executor/cuda.h"

namespace collctl::runtime {
namespace {

constexpr int64_t kReasonMs = 1000;  // how far a notice may be behind what it explains

bool follows(const Error& e) {
  return e.code == ErrorCode::deadline || e.code == ErrorCode::lost;
}

}  // namespace

Status FirstError::status() const {
  if (!failed()) return {};
  std::lock_guard lock(error_mutex_);
  return *first_;
}

void FirstError::fail(const Error& error, bool announce) {
  {
    std::lock_guard lock(error_mutex_);
    // A peer has found this rank gone before it could say why.
    const bool misheard = announce && first_ && first_->rank == rank_ &&
                          base::only_says_closed(*first_) && !base::only_says_closed(error);
    // A break or delay elsewhere may have its reason here.
    const bool explains = first_ && base::says_cannot_reach(error) && follows(*first_) &&
                          !base::says_broken_way(*first_);
    if (first_) announce = false;
    if (!first_ || misheard || explains) first_ = error;
  }
  failed_.store(true, std::memory_order_release);
  raise_abort();
  if (announce && bootstrap_ != nullptr) bootstrap_->announce_abort(error);
  failure_->call(error);
}

void FirstError::note_awaited(int rank) {
  const std::lock_guard lock(error_mutex_);
  if (first_ && first_->awaited < 0 && rank != rank_) first_->awaited = rank;
}

void FirstError::raise_abort() {
  std::atomic_ref<uint32_t>(abort_word_).store(1);
  const std::lock_guard lock(abort_mutex_);
  if (gpu_ != nullptr) gpu_->abort();
}

void FirstError::stop_gpu(CudaExecutor* gpu) {
  const std::lock_guard lock(abort_mutex_);
  gpu_ = gpu;
  // Raised before the executor was there to see it.
  if (gpu_ != nullptr && std::atomic_ref<uint32_t>(abort_word_).load() != 0) gpu_->abort();
}

void FirstError::wait_for_notice(Deadline deadline) const {
  while (!failed() && !deadline.passed()) base::sleep_until(Deadline::after_ms(2));
}

void FirstError::wait_for_reason(const Error& ended) const {
  if (ended.code != ErrorCode::deadline) wait_for_notice(Deadline::after_ms(kReasonMs));
}

Status FirstError::with_reason(Status ended) const {
  if (ended || ended.error().code != ErrorCode::lost || ended.error().rank < 0 ||
      ended.error().rank == rank_)
    return ended;
  wait_for_reason(ended.error());
  Status known = status();
  return known ? std::move(ended) : std::move(known);
}

}  // namespace collctl::runtime
