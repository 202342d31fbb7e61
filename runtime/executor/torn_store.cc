#include "runtime/executor/torn_store.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "kernels/slices.h"
#include "transport/net/fifo_counters.h"

namespace collctl::runtime {
namespace {

using kernels::kLl128LineBytes;
using transport::DeviceStream;

constexpr uint32_t kMostLines = 512, kRounds = 2000;
// Over a network each costs a kernel and a trip: lines are seen as often as takes a few
// milliseconds.
constexpr uint32_t kNetworkRounds = 64;
constexpr int64_t kTimeoutNs = 5'000'000'000;
constexpr uint64_t kWordsApart = 64;

struct TornStoreOutcome : JointOutcome {
  int32_t from = -1;  // the writer of torn lines
  uint32_t torn = 0;
};
static_assert(sizeof(TornStoreOutcome) == 256);

// One end of a network link. A round is one message for each slot: the first has the lines, the
// others one line each.
struct NetworkEnd {
  kernels::Fifo* fifo;
  uint64_t done = 0;     // steps: published, or freed
  bool filling = false;  // send: the kernel that writes the next round's lines is queued
  uint64_t steps() const { return uint64_t(kNetworkRounds) * fifo->slot_count; }
};

class TornStoreTest : public JointTest {
 public:
  explicit TornStoreTest(const TornStoreOptions& options) : o_(options) {
    for (const LinePath& path : o_.reads)
      if (path.fifo != nullptr) receives_.push_back({path.fifo});
    for (const LinePath& path : o_.writes)
      if (path.fifo != nullptr) sends_.push_back({path.fifo});
  }

  Status set_up() override {
    if (!o_.cannot.empty()) return Error(ErrorCode::unavailable, o_.cannot);
    COLL_TRY(o_.device->use());
    const size_t reads = o_.reads.size();
    COLL_ASSIGN(words_, transport::PinnedMemory::make(o_.device, (reads + 1) * kWordsApart));
    for (size_t i = 0; i < reads; ++i) {
      COLL_ASSIGN(auto reader, DeviceStream::make(o_.device));
      readers_.push_back(std::move(reader));
    }
    // Writes to this GPU's own memory, for the network, are soon done: one stream is enough.
    const size_t direct = o_.writes.size() - sends_.size();
    for (size_t i = 0; i < direct + (sends_.empty() ? 0 : 1); ++i) {
      COLL_ASSIGN(auto writer, DeviceStream::make(o_.device));
      writers_.push_back(std::move(writer));
    }
    // A kernel's first launch loads it, which may wait for kernels that run: no reader must.
    if (!o_.reads.empty()) COLL_TRY(read(0, 0));
    if (!o_.writes.empty()) COLL_TRY(write(o_.writes[0], 0, writers_[0]));
    return wait();
  }

  Status start() override {
    for (size_t i = 0; i < readers_.size(); ++i)
      COLL_TRY(read(i, o_.reads[i].fifo == nullptr ? kRounds : kNetworkRounds));
    return {};
  }
  Status go() override {
    size_t next = 0;
    for (const LinePath& path : o_.writes)
      if (path.fifo == nullptr) COLL_TRY(write(path, kRounds, writers_[next++]));
    return sends_.empty() && receives_.empty() ? Status() : write_by_network();
  }

  Status wait() override {
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
    for (size_t i = 0; i < readers_.size(); ++i) {
      const uint32_t torn = std::atomic_ref<uint32_t>(*word(i)).load();
      if (torn == 0) continue;
      mine.from = o_.reads[i].peer;
      mine.torn = torn;
    }
    return mine;
  }

  // Lines with old numbers would be taken for new ones once the steps get there.
  Status clean() override {
    for (const LinePath& path : o_.reads)
      COLL_TRY(o_.device->zero(path.lines, uint64_t(o_.lines) * kLl128LineBytes));
    for (auto* ends : {&sends_, &receives_})
      for (const NetworkEnd& end : *ends) end.fifo->step += end.done;
    return {};
  }

 private:
  Status wait_for_all(Deadline deadline) const {
    for (auto* streams : {&readers_, &writers_})
      for (const DeviceStream& stream : *streams) COLL_TRY(stream.synchronize(deadline));
    return {};
  }
  uint32_t* word(size_t i) const {
    return reinterpret_cast<uint32_t*>(words_.data() + i * kWordsApart);
  }
  Status launched(int error) const {
    if (error == 0) return {};
    return Error(ErrorCode::unavailable, o_.launcher->error_text(error));
  }
  Status read(size_t i, uint32_t rounds) {
    return launched(o_.launcher->torn_store_read(o_.reads[i].lines, o_.lines, rounds, word(i),
                                                 word(readers_.size()), kTimeoutNs,
                                                 readers_[i].get()));
  }
  Status write(const LinePath& path, uint32_t rounds, const DeviceStream& stream) {
    return launched(o_.launcher->torn_store_write(path.lines, o_.lines, rounds, stream.get()));
  }

  // The proxy carries; readers do not wait for what their host sees arrive.
  Status write_by_network() {
    struct Busy {
      ProxyEngine* proxy;
      explicit Busy(ProxyEngine* of) : proxy(of) { proxy->busy(true); }
      ~Busy() { proxy->busy(false); }
    } const busy(o_.proxy);
    const Deadline deadline = Deadline::after_seconds(o_.wait_s);
    while (true) {
      bool done = true;
      for (size_t i = 0; i < sends_.size(); ++i) COLL_TRY(send_round(i, done));
      for (NetworkEnd& end : receives_) free_slots(end, done);
      if (done) return {};
      if (deadline.passed())
        return Error(ErrorCode::deadline, "lines did not pass through the network in time");
      base::yield_thread();
    }
  }

  Status send_round(size_t i, bool& done) {
    NetworkEnd& end = sends_[i];
    kernels::Fifo& fifo = *end.fifo;
    const uint64_t sent = transport::load_counter(fifo.head) - fifo.step;
    if (end.done == end.steps()) {
      done = done && sent == end.done;
      return {};
    }
    done = false;
    const DeviceStream& stream = writers_.back();
    if (!end.filling) {
      if (sent < end.done) return {};
      end.filling = true;
      return write({-1, fifo.slots, nullptr}, uint32_t(end.done / fifo.slot_count) + 1, stream);
    }
    COLL_ASSIGN(const bool idle, stream.idle());
    if (!idle) return {};
    end.filling = false;
    for (uint32_t slot = 0; slot < fifo.slot_count; ++slot)
      fifo.records[slot].bytes = (slot == 0 ? o_.lines : 1) * kLl128LineBytes;
    end.done += fifo.slot_count;
    transport::publish(fifo.tail, fifo.step + end.done, fifo.consumer_sleeps);
    return {};
  }

  void free_slots(NetworkEnd& end, bool& done) {
    kernels::Fifo& fifo = *end.fifo;
    const uint64_t arrived = transport::load_counter(fifo.tail) - fifo.step;
    if (arrived > end.done) {
      end.done = arrived;
      transport::publish(fifo.head, fifo.step + arrived, fifo.producer_sleeps);
    }
    done = done && end.done == end.steps();
  }

  const TornStoreOptions o_;
  transport::PinnedMemory words_;  // counts of torn lines, then the abort word
  std::vector<DeviceStream> readers_, writers_;
  std::vector<NetworkEnd> sends_, receives_;
};

std::string what_happened(const std::vector<TornStoreOutcome>& all, const std::string& where) {
  const std::string there = where.empty() ? "" : " " + where;
  if (const int failed = first_failed(all); failed >= 0)
    return format("the torn-store test{} failed on rank {}: {}", there, failed,
                  all[size_t(failed)].why);
  for (size_t r = 0; r < all.size(); ++r) {
    const TornStoreOutcome& o = all[r];
    if (o.torn == kernels::cuda::kTornStoreAborted)
      return format("lines of rank {} did not arrive at rank {}{}", o.from, r, there);
    if (o.torn != 0)
      return format("{} lines of rank {} arrived torn at rank {}{}", o.torn, o.from, r, there);
  }
  return {};
}

}  // namespace

uint32_t torn_store_lines(uint32_t slot_bytes) {
  return std::min(kMostLines, slot_bytes / kLl128LineBytes);
}

// Peer number i writes rank + i + 1's memory; its reader watches what rank - i - 1 writes.
TornStoreOptions torn_stores_in_window(const kernels::cuda::PeerMemory& window,
                                       uint64_t part_bytes) {
  TornStoreOptions o;
  const int n = window.nranks;
  o.lines =
      uint32_t(std::min<uint64_t>(kMostLines, part_bytes / kLl128LineBytes / uint64_t(n - 1)));
  const auto part = [&](int rank, int i) {
    return window.base + uint64_t(rank) * window.stride + uint64_t(i) * o.lines * kLl128LineBytes;
  };
  for (int i = 0; i < n - 1; ++i) {
    const int to = (window.rank + i + 1) % n;
    o.writes.push_back({.peer = to, .lines = part(to, i)});
    o.reads.push_back({.peer = (window.rank + n - i - 1) % n, .lines = part(window.rank, i)});
  }
  return o;
}

Result<TornStoreVerdict> test_torn_stores(const TornStoreOptions& options, Deadline deadline) {
  COLL_INFO(init, "LL128 : testing lines {}",
            options.where.empty() ? "between GPUs" : options.where);
  auto test = std::make_unique<TornStoreTest>(options);
  COLL_ASSIGN(
      const std::vector<TornStoreOutcome> all,
      take_steps<TornStoreOutcome>(
          *test, *options.bootstrap, "LL128 test", [&] { return test->outcome(); }, deadline));
  TornStoreVerdict verdict{.why = what_happened(all, options.where),
                           .memory_lost = memory_lost(all),
                           .runs_on = runs_on(all),
                           .unended = nullptr};
  if (all[size_t(options.bootstrap->rank())].failed == JointOutcome::kNotEnded)
    verdict.unended = std::move(test);
  return verdict;
}

}  // namespace collctl::runtime
