// The last collective calls of a communicator, so that ranks stuck waiting for each other can
// see whether they called the same. Sends and receives are only counted: every rank has its own.
// Threads: one writes, without a lock, because every operation does; any may read meanwhile.
#pragma once
#include <atomic>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "runtime/plan/operation.h"

namespace collctl::runtime {

class CallLog {
 public:
  void note(const Operation& op);
  uint64_t noted() const { return noted_.load(std::memory_order_acquire); }  // collectives
  uint64_t messages() const { return messages_.load(std::memory_order_relaxed); }
  std::string last() const;  // of both kinds, in words; empty: none yet
  Bytes encode() const;
  // Error lost: where this rank and `peer`, whose log that is, first called differently: both calls
  // in words. Nothing if they do not differ as far as both logs go, or the bytes are not a log.
  std::optional<Error> difference(int rank, int peer, ByteView log) const;

 private:
  static constexpr uint64_t kKept = 32;
  static constexpr uint64_t kCollective = ~uint64_t{0};
  struct Call {  // as it travels
    uint64_t count;
    int32_t root;
    Collective collective;
    DataType type;
    RedOp op;
    uint8_t reserved;
    bool same(const Call& other) const;
    std::string text() const;
  };
  static_assert(sizeof(Call) == 16);

  // A reader copies all slots and then drops those that were begun anew meanwhile.
  struct Slot {
    std::atomic<uint64_t> words[2];
  };
  struct Kept {
    uint64_t from = 0, end = 0;  // numbers
    Call calls[kKept] = {};      // by number % kKept
  };
  Kept kept() const;

  std::atomic<uint64_t> begun_{0}, noted_{0};
  // The last call: kCollective, else bytes * 2, and 1 more for a receive.
  std::atomic<uint64_t> messages_{0}, last_message_{kCollective};
  Slot slots_[kKept] = {};  // by number % kKept
};

}  // namespace collctl::runtime
