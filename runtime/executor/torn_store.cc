#include "runtime/executor/torn_store.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"

namespace collctl::runtime {
namespace {

using transport::DeviceStream;

constexpr uint32_t kMostLines = 512, kRounds = 2000;
constexpr uint64_t kLineBytes = 128;
constexpr int64_t kTimeoutNs = 5'000'000'000;
constexpr double kAbortSeconds = 1;  // readers that were told to
constexpr uint64_t kWordsApart = 64;

enum : int32_t { kWent, kCannot, kNotEnded };  // the test was made, could not be, has not ended

// How it went on one rank, for all to see.
struct TornStoreOutcome {
  int32_t from = -1;  // the writer of torn lines
  uint32_t torn = 0;
  int32_t failed = kWent;
  char why[116] = {};
};
static_assert(sizeof(TornStoreOutcome) == 128);

class TornStoreTest : public UnendedTornStoreTest {
 public:
  explicit TornStoreTest(const TornStoreOptions& options)
      : o_(options),
        lines_(uint32_t(std::min<uint64_t>(
            kMostLines, o_.part_bytes / kLineBytes / uint64_t(o_.window.nranks - 1)))) {}

  Status set_up() {
    const size_t peers = size_t(o_.window.nranks - 1);
    COLL_ASSIGN(words_, transport::PinnedMemory::make(o_.device, (peers + 1) * kWordsApart));
    for (size_t i = 0; i < peers; ++i) {
      COLL_ASSIGN(auto reader, DeviceStream::make(o_.device));
      COLL_ASSIGN(auto writer, DeviceStream::make(o_.device));
      readers_.push_back(std::move(reader));
      writers_.push_back(std::move(writer));
    }
    // A kernel's first launch loads it, which may wait for kernels that run: no reader must.
    COLL_TRY(read(0, 0));
    COLL_TRY(write(0, 0));
    return wait();
  }

  // Peer number i writes rank + i + 1's memory; its reader watches what rank - i - 1 writes.
  Status start_reading() {
    for (size_t i = 0; i < readers_.size(); ++i) COLL_TRY(read(i, kRounds));
    return {};
  }
  Status start_writing() {
    for (size_t i = 0; i < writers_.size(); ++i) COLL_TRY(write(i, kRounds));
    return {};
  }

  Status wait() {
    Status first = wait_for_all(Deadline::after_seconds(o_.wait_s));
    if (first) return first;
    std::atomic_ref<uint32_t>(*word(readers_.size())).store(1);  // readers abort
    (void)wait_for_all(Deadline::after_seconds(kAbortSeconds));  // ended() says how that went
    return first;
  }

  // A GPU that does not answer any more has ended nothing that one could rely on.
  bool ended() const override {
    for (auto* streams : {&readers_, &writers_})
      for (const DeviceStream& stream : *streams)
        if (const auto idle = stream.idle(); !idle || !*idle) return false;
    return true;
  }

  TornStoreOutcome outcome() const {
    TornStoreOutcome mine;
    const int n = o_.window.nranks;
    for (size_t i = 0; i < readers_.size(); ++i) {
      const uint32_t torn = std::atomic_ref<uint32_t>(*word(i)).load();
      if (torn == 0) continue;
      mine.from = (o_.window.rank + n - int(i) - 1) % n;
      mine.torn = torn;
    }
    return mine;
  }

  Status clean() { return o_.device->zero(part(o_.window.rank), pair_bytes() * readers_.size()); }

 private:
  Status wait_for_all(Deadline deadline) const {
    for (auto* streams : {&readers_, &writers_})
      for (const DeviceStream& stream : *streams) COLL_TRY(stream.synchronize(deadline));
    return {};
  }
  uint8_t* part(int rank) const { return o_.window.base + uint64_t(rank) * o_.window.stride; }
  uint32_t* word(size_t i) const {
    return reinterpret_cast<uint32_t*>(words_.data() + i * kWordsApart);
  }
  Status launched(int error) const {
    if (error == 0) return {};
    return Error(ErrorCode::unavailable, o_.launcher->error_text(error));
  }
  Status read(size_t i, uint32_t rounds) {
    return launched(o_.launcher->torn_store_read(part(o_.window.rank) + i * pair_bytes(), lines_,
                                                 rounds, word(i), word(readers_.size()), kTimeoutNs,
                                                 readers_[i].get()));
  }
  Status write(size_t i, uint32_t rounds) {
    const int to = (o_.window.rank + int(i) + 1) % o_.window.nranks;
    return launched(o_.launcher->torn_store_write(part(to) + i * pair_bytes(), lines_, rounds,
                                                  writers_[i].get()));
  }

  uint64_t pair_bytes() const { return lines_ * kLineBytes; }

  const TornStoreOptions o_;
  const uint32_t lines_;           // of a pair
  transport::PinnedMemory words_;  // counts of torn lines, then the abort word
  std::vector<DeviceStream> readers_, writers_;
};

std::string what_happened(std::vector<TornStoreOutcome>& all) {
  for (size_t r = 0; r < all.size(); ++r) {
    TornStoreOutcome& o = all[r];
    o.why[sizeof o.why - 1] = 0;
    if (o.failed != kWent) return format("the torn-store test failed on rank {}: {}", r, o.why);
    if (o.torn == kernels::cuda::kTornStoreAborted)
      return format("lines of rank {} did not arrive at rank {}", o.from, r);
    if (o.torn != 0)
      return format("{} lines of rank {} arrived torn at rank {}", o.torn, o.from, r);
  }
  return {};
}

void note(Status& first, Status status) {
  if (first && !status) first = std::move(status);
}

}  // namespace

Result<TornStoreVerdict> test_torn_stores(const TornStoreOptions& options, Deadline deadline) {
  COLL_INFO(init, "LL128 : testing lines between {} GPUs", options.window.nranks);
  auto test = std::make_unique<TornStoreTest>(options);
  TornStoreTest& run = *test;
  Status went = options.device->use();
  if (went) went = run.set_up();
  std::vector<TornStoreOutcome> all(static_cast<size_t>(options.window.nranks));
  TornStoreOutcome& mine = all[size_t(options.window.rank)];
  // Whether everybody can: nobody shall wait for lines that nobody writes.
  const auto share = [&]() -> Result<bool> {
    mine.failed = went ? kWent : run.ended() ? kCannot : kNotEnded;
    if (!went) {
      const std::string why = went.error().chain();
      std::copy_n(why.data(), std::min(why.size(), sizeof mine.why - 1), mine.why);
    }
    COLL_TRY_IN(options.bootstrap->all_gather(all.data(), sizeof(TornStoreOutcome), deadline),
                "LL128 test");
    return std::all_of(all.begin(), all.end(),
                       [](const TornStoreOutcome& o) { return o.failed == kWent; });
  };
  COLL_ASSIGN(bool good, share());
  const bool ran = good;
  if (ran) {
    note(went, run.start_reading());
    COLL_TRY_IN(options.bootstrap->barrier(deadline), "LL128 test");
    note(went, run.start_writing());
    note(went, run.wait());
    mine = run.outcome();
    COLL_ASSIGN(good, share());  // nobody writes any more
    if (good) note(went, run.clean());
    COLL_ASSIGN(good, share());
  }
  TornStoreVerdict verdict{.why = what_happened(all), .window_lost = false, .unended = nullptr};
  // What was written into it, and is zero no more, or still may be written.
  verdict.window_lost = std::any_of(all.begin(), all.end(), [&](const TornStoreOutcome& o) {
    return o.failed == kNotEnded || (ran && o.failed != kWent);
  });
  if (mine.failed == kNotEnded) verdict.unended = std::move(test);
  return verdict;
}

}  // namespace collctl::runtime
