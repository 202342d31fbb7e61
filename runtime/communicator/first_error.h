// The first error of a communicator, and the abort that it raises: the word that every wait of this
// rank looks at, the kernels of its GPU, and the notice to all other ranks. The first error is kept
// for ever; only this rank's own is announced.
//
// Threads: any. The threads of bootstrap, proxy and GPU report here, so it outlives them; it owns
// none of them, and forgets the GPU's executor (`stop_gpu(nullptr)`) before that one goes.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"

namespace collctl::runtime {

class Bootstrap;
class CudaExecutor;

class FirstError {
 public:
  explicit FirstError(int rank) : rank_(rank) {}

  uint32_t* abort_word() { return &abort_word_; }  // not 0 from then on; for atomic_ref
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;
  // Called with the first error, after the abort was raised and told.
  const std::shared_ptr<base::Cancel>& failure() const { return failure_; }

  void fail(const Error& error, bool announce);
  // This rank waited for `rank` when another's error ended its wait: it goes with that error.
  void note_awaited(int rank);
  void raise_abort();  // without an error: the communicator closes
  // From now on: who tells the others (start-up's thread, before any other), and what else stops.
  void announce_by(Bootstrap* bootstrap) { bootstrap_ = bootstrap; }
  void stop_gpu(CudaExecutor* gpu);

  // An error of another rank may still be on its way, and is then the reason of what failed here.
  void wait_for_notice(Deadline deadline) const;  // ended by anybody's announcement
  // After an exchange between ranks that `ended` so. One that an abort ended has told why before it
  // returned; one whose peer has gone may be ahead of the notice that says why.
  void wait_for_reason(const Error& ended) const;
  // The reason, if `ended` only says that a peer has gone with what it offered.
  Status with_reason(Status ended) const;

 private:
  const int rank_;
  alignas(64) uint32_t abort_word_ = 0;
  std::atomic<bool> failed_{false};
  mutable std::mutex error_mutex_;
  std::optional<Error> first_;
  const std::shared_ptr<base::Cancel> failure_ = std::make_shared<base::Cancel>();
  std::mutex abort_mutex_;
  CudaExecutor* gpu_ = nullptr;  // while it is complete; under abort_mutex_
  Bootstrap* bootstrap_ = nullptr;
};

}  // namespace collctl::runtime
