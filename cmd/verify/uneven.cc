#include "cmd/verify/uneven.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cmd/verify/data_inputs.h"

namespace collctl::cmd {
namespace {

// Calls receiver(rank) for each block of a sender.
template <class Receiver>
void deal(int sender, int nranks, Receiver receiver) {
  const uint64_t n = uint64_t(nranks), seed = mix(mix(n) + uint64_t(sender));
  for (uint64_t i = 0; i < n; ++i) receiver(size_t(mix(seed + i) % n));
}

UnevenShare dealt_share(int rank, int nranks) {
  UnevenShare share;
  const auto n = size_t(nranks), me = size_t(rank);
  for (auto* counts : {&share.to, &share.from, &share.before}) counts->resize(n);
  deal(rank, nranks, [&](size_t to) { ++share.to[to]; });
  for (size_t sender = 0; sender < n; ++sender) {
    deal(int(sender), nranks, [&](size_t to) {
      share.from[sender] += to == me;
      share.before[sender] += to < me;
    });
    share.room += room_of(share.from[sender]);
  }
  return share;
}

UnevenTotals dealt_totals(int nranks) {
  UnevenTotals totals;
  const auto n = size_t(nranks);
  std::vector<uint32_t> got(n), room(n), row(n);  // by receiver; got: of others
  const auto busy = [&](uint64_t blocks, size_t rank) {
    const bool first = blocks == totals.busiest && int(rank) < totals.busiest_rank;
    if (blocks <= totals.busiest && !first) return;
    totals.busiest = blocks;
    totals.busiest_rank = int(rank);
  };
  for (size_t sender = 0; sender < n; ++sender) {
    std::fill(row.begin(), row.end(), 0);
    deal(int(sender), nranks, [&](size_t to) { ++row[to]; });
    busy(n - row[sender], sender);
    for (size_t to = 0; to < n; ++to) {
      room[to] += room_of(row[to]);
      if (to != sender) got[to] += row[to];
    }
  }
  for (size_t rank = 0; rank < n; ++rank) busy(got[rank], rank);
  totals.room = *std::max_element(room.begin(), room.end());
  return totals;
}

// What was made once: every row asks for it several times, and of many ranks it takes a while.
template <class Key, class Value, class Make>
Value kept(std::map<Key, Value>& known, const Key& key, Make make) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(key);
  if (fresh) at->second = make();
  return at->second;
}

}  // namespace

std::shared_ptr<const UnevenShare> uneven_share(int rank, int nranks) {
  static std::map<std::pair<int, int>, std::shared_ptr<const UnevenShare>> known;
  return kept(known, std::pair(rank, nranks),
              [&] { return std::make_shared<const UnevenShare>(dealt_share(rank, nranks)); });
}

UnevenTotals uneven_totals(int nranks) {
  static std::map<int, UnevenTotals> known;
  return kept(known, nranks, [&] { return dealt_totals(nranks); });
}

}  // namespace collctl::cmd
