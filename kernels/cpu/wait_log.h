// The waits of one rank's works: at this moment, noted by every wait that goes to sleep; and, where
// somebody wants to know, for how long in all, by peer: two looks at the clock for each wait, so it
// is left out by default. Written by the threads that wait, without locks; any thread reads.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/contract/waits.h"

namespace collctl::kernels {

// The wait of a rank in an operation by a kernel that notes nothing, one made for windows: the
// ranks that have not begun it. `number`: of the operations of that kind, from 1 on. `since_ns`: it
// has waited from then on at least.
struct WindowWait {
  uint64_t number = 0;
  std::vector<int> missing;
  int64_t since_ns = 0;
};

class WaitLog {
 public:
  // `sums`: with the times by peer, of so many ranks.
  explicit WaitLog(int ranks, bool sums)
      : ranks_(ranks), peers_(sums ? std::make_unique<Sums[]>(size_t(ranks)) : nullptr) {}

  struct Now {
    Report wait;  // code none
    int64_t since_ns = 0;
  };
  // A place for a wait until end(); -1: more wait at the same time than are noted.
  int begin(const Report& wait, int64_t since_ns) {
    for (size_t i = 0; i < kPlaces; ++i) {
      Place& place = places_[i];
      uint32_t open = 0;
      if (place.state.load(std::memory_order_relaxed) != 0 ||
          !place.state.compare_exchange_strong(open, 1, std::memory_order_acq_rel))
        continue;
      place.version.fetch_add(1, std::memory_order_acq_rel);
      const auto words = std::bit_cast<Words>(Now{wait, since_ns});
      for (size_t w = 0; w < words.size(); ++w)
        place.words[w].store(words[w], std::memory_order_release);
      place.state.store(2, std::memory_order_release);
      return int(i);
    }
    return -1;
  }
  void end(int place) { places_[size_t(place)].state.store(0, std::memory_order_release); }
  std::vector<Now> now() const {
    std::vector<Now> list;
    for (const Place& place : places_) {
      const uint64_t version = place.version.load(std::memory_order_acquire);
      if (place.state.load(std::memory_order_acquire) != 2) continue;
      Words words;
      for (size_t w = 0; w < words.size(); ++w)
        words[w] = place.words[w].load(std::memory_order_acquire);
      if (place.version.load(std::memory_order_acquire) == version)
        list.push_back(std::bit_cast<Now>(words));
    }
    return list;
  }

  bool sums() const { return peers_ != nullptr; }
  // `away_ns`: of the time between its first look and its last one, that in which this thread did
  // not run although it had nothing to wait for (it was stopped, or had no processor).
  void add(int peer, WaitSide side, int channel, int64_t waited_ns, int64_t away_ns) {
    if (peer < 0 || peer >= ranks_) return;
    Sums& sums = peers_[size_t(peer)];
    (side == WaitSide::recv ? sums.recv_ns : sums.send_ns)
        .fetch_add(uint64_t(waited_ns), std::memory_order_relaxed);
    sums.waits.fetch_add(1, std::memory_order_relaxed);
    if (away_ns > 0) away_ns_.fetch_add(uint64_t(away_ns), std::memory_order_relaxed);
    if (channel >= channels_.load(std::memory_order_relaxed))
      channels_.store(channel + 1, std::memory_order_relaxed);
  }
  PeerWait of(int peer) const {
    const Sums& sums = peers_[size_t(peer)];
    const auto get = [](const auto& word) { return word.load(std::memory_order_relaxed); };
    return {get(sums.recv_ns), get(sums.send_ns), get(sums.waits)};
  }
  uint64_t away_ns() const { return away_ns_.load(std::memory_order_relaxed); }
  int channels() const { return channels_.load(std::memory_order_relaxed); }  // that have waited

 private:
  static constexpr size_t kPlaces = 64;
  using Words = std::array<uint64_t, sizeof(Now) / 8>;
  static_assert(sizeof(Now) == sizeof(Words));
  struct alignas(64) Place {
    std::atomic<uint64_t> version{0};
    std::atomic<uint32_t> state{0};  // 0 free, 1 being written, 2 to be read
    std::atomic<uint64_t> words[sizeof(Now) / 8] = {};
  };
  struct Sums {
    std::atomic<uint64_t> recv_ns{0}, send_ns{0}, waits{0};
  };

  const int ranks_;
  Place places_[kPlaces];
  std::unique_ptr<Sums[]> peers_;
  std::atomic<uint64_t> away_ns_{0};
  std::atomic<int> channels_{0};
};

}  // namespace collctl::kernels
