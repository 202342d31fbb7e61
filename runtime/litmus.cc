#include "runtime/litmus.h"

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
constexpr double kWaitSeconds = 10;
constexpr uint64_t kWordsApart = 64;

// How it went on one rank, for all to see.
struct Outcome {
  int32_t from = -1;  // the writer of torn lines
  uint32_t torn = 0;
  int32_t failed = 0;  // the test could not be made
  char why[116] = {};
};
static_assert(sizeof(Outcome) == 128);

class Litmus {
 public:
  explicit Litmus(const LitmusOptions& options)
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
    Status first;
    for (auto* streams : {&readers_, &writers_})
      for (const DeviceStream& stream : *streams) {
        Status done = stream.synchronize(Deadline::after_seconds(kWaitSeconds));
        if (done) continue;
        std::atomic_ref<uint32_t>(*word(readers_.size())).store(1);  // readers give up
        if (first) first = std::move(done);
      }
    return first;
  }

  Outcome outcome() const {
    Outcome mine;
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
  uint8_t* part(int rank) const { return o_.window.base + uint64_t(rank) * o_.window.stride; }
  uint32_t* word(size_t i) const {
    return reinterpret_cast<uint32_t*>(words_.data() + i * kWordsApart);
  }
  Status launched(int error) const {
    if (error == 0) return {};
    return Error(ErrorCode::unavailable, o_.launcher->error_text(error));
  }
  Status read(size_t i, uint32_t rounds) {
    return launched(o_.launcher->litmus_read(part(o_.window.rank) + i * pair_bytes(), lines_,
                                             rounds, word(i), word(readers_.size()), kTimeoutNs,
                                             readers_[i].get()));
  }
  Status write(size_t i, uint32_t rounds) {
    const int to = (o_.window.rank + int(i) + 1) % o_.window.nranks;
    return launched(
        o_.launcher->litmus_write(part(to) + i * pair_bytes(), lines_, rounds, writers_[i].get()));
  }

  uint64_t pair_bytes() const { return lines_ * kLineBytes; }

  const LitmusOptions& o_;
  const uint32_t lines_;           // of a pair
  transport::PinnedMemory words_;  // counts of torn lines, then the abort word
  std::vector<DeviceStream> readers_, writers_;
};

void note(Status& first, Status status) {
  if (first && !status) first = std::move(status);
}

}  // namespace

Result<std::string> why_lines_tear(const LitmusOptions& options, Deadline deadline) {
  COLL_INFO(init, "LL128 : testing lines between {} GPUs", options.window.nranks);
  Litmus litmus(options);
  Status went = options.device->use();
  if (went) went = litmus.set_up();
  std::vector<Outcome> all(static_cast<size_t>(options.window.nranks));
  Outcome& mine = all[size_t(options.window.rank)];
  // Whether everybody can: nobody shall wait for lines that nobody writes.
  const auto share = [&]() -> Result<bool> {
    mine.failed = went ? 0 : 1;
    if (!went) {
      const std::string why = went.error().chain();
      std::copy_n(why.data(), std::min(why.size(), sizeof mine.why - 1), mine.why);
    }
    COLL_TRY_IN(options.bootstrap->all_gather(all.data(), sizeof(Outcome), deadline), "LL128 test");
    return std::all_of(all.begin(), all.end(), [](const Outcome& o) { return o.failed == 0; });
  };
  COLL_ASSIGN(bool good, share());
  if (good) {
    note(went, litmus.start_reading());
    COLL_TRY_IN(options.bootstrap->barrier(deadline), "LL128 test");
    note(went, litmus.start_writing());
    note(went, litmus.wait());
    mine = litmus.outcome();
    COLL_ASSIGN(good, share());  // nobody writes any more
    note(went, litmus.clean());
    COLL_ASSIGN(good, share());
  }
  for (size_t r = 0; r < all.size(); ++r) {
    Outcome& o = all[r];
    o.why[sizeof o.why - 1] = 0;
    if (o.failed != 0) return format("the test of lines failed on rank {}: {}", r, o.why);
    if (o.torn == kernels::cuda::kLitmusGaveUp)
      return format("lines of rank {} did not come to rank {}", o.from, r);
    if (o.torn != 0) return format("{} lines of rank {} came torn to rank {}", o.torn, o.from, r);
  }
  return std::string();
}

}  // namespace collctl::runtime
