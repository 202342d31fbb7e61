#include "cmd/verify/uneven.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "cmd/verify/data_inputs.h"

namespace collctl::cmd {
namespace {

// Values are made once: every row asks for them several times, and for many ranks it takes a while.
template <class Key, class Value, class Make>
Value kept(std::map<Key, Value>& known, std::mutex& mutex, const Key& key, Make make) {
  const std::lock_guard lock(mutex);
  const auto [at, fresh] = known.try_emplace(key);
  if (fresh) at->second = make();
  return at->second;
}

// Whole numbers alone: ranks on machines that round otherwise count the same.
std::vector<uint32_t> zipf_parts(int nranks) {
  const auto n = size_t(nranks);
  const auto weight = [](size_t k) { return (uint64_t(1) << 32) / (k + 1); };
  uint64_t all = 0, left = n;
  for (size_t k = 0; k < n; ++k) all += weight(k);
  std::vector<uint32_t> parts(n);
  for (size_t k = 0; k < n; ++k) {
    parts[k] = uint32_t(n * weight(k) / all);
    left -= parts[k];
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return n * weight(a) % all > n * weight(b) % all; });
  for (size_t i = 0; i < left; ++i) ++parts[order[i]];
  return parts;
}

std::shared_ptr<const std::vector<uint32_t>> zipf(int nranks) {
  static std::map<int, std::shared_ptr<const std::vector<uint32_t>>> known;
  static std::mutex mutex;
  return kept(known, mutex, nranks,
              [&] { return std::make_shared<const std::vector<uint32_t>>(zipf_parts(nranks)); });
}

UnevenShare dealt_share(SendPattern of, int rank, int nranks) {
  const auto deal = row_of(of).deal;
  UnevenShare share;
  const auto n = size_t(nranks), me = size_t(rank);
  share.to = deal(rank, nranks);
  share.sends = std::accumulate(share.to.begin(), share.to.end(), uint64_t(0));
  for (auto* counts : {&share.from, &share.before}) counts->resize(n);
  for (size_t sender = 0; sender < n; ++sender) {
    const std::vector<uint32_t> row = deal(int(sender), nranks);
    share.from[sender] = row[me];
    share.before[sender] = std::accumulate(row.begin(), row.begin() + rank, uint32_t(0));
    share.room += room_of(row[me]);
  }
  return share;
}

UnevenTotals dealt_totals(SendPattern of, int nranks) {
  UnevenTotals totals;
  const auto n = size_t(nranks);
  std::vector<uint64_t> got(n), room(n);  // by receiver; got: of others
  const auto busy = [&](uint64_t blocks, size_t rank) {
    const bool first = blocks == totals.busiest && int(rank) < totals.busiest_rank;
    if (blocks <= totals.busiest && !first) return;
    totals.busiest = blocks;
    totals.busiest_rank = int(rank);
  };
  for (size_t sender = 0; sender < n; ++sender) {
    const std::vector<uint32_t> row = row_of(of).deal(int(sender), nranks);
    const uint64_t sends = std::accumulate(row.begin(), row.end(), uint64_t(0));
    totals.input = std::max(totals.input, sends);
    busy(sends - row[sender], sender);
    for (size_t to = 0; to < n; ++to) {
      room[to] += room_of(row[to]);
      if (to != sender) got[to] += row[to];
    }
  }
  for (size_t rank = 0; rank < n; ++rank) busy(got[rank], rank);
  totals.room = *std::ranges::max_element(room);
  return totals;
}

}  // namespace

std::vector<uint32_t> mixed_blocks(int sender, int nranks) {
  const uint64_t n = uint64_t(nranks), seed = mix(mix(n) + uint64_t(sender));
  std::vector<uint32_t> to(n);
  for (uint64_t i = 0; i < n; ++i) ++to[size_t(mix(seed + i) % n)];
  return to;
}

std::vector<uint32_t> zipf_blocks(int, int nranks) {
  return *zipf(nranks);
}

std::vector<uint32_t> zipf_back_blocks(int sender, int nranks) {
  return std::vector<uint32_t>(size_t(nranks), (*zipf(nranks))[size_t(sender)]);
}

std::vector<uint32_t> hot_blocks(int, int nranks) {
  const auto half = size_t(nranks) / 2;
  std::vector<uint32_t> to(static_cast<size_t>(nranks));
  to[0] = uint32_t(size_t(nranks) - half);
  std::fill(to.begin() + 1, to.begin() + 1 + ptrdiff_t(half), 1);
  return to;
}

std::shared_ptr<const UnevenShare> uneven_share(int rank, int nranks, SendPattern of) {
  static std::map<std::tuple<SendPattern, int, int>, std::shared_ptr<const UnevenShare>> known;
  static std::mutex mutex;
  return kept(known, mutex, std::tuple(of, rank, nranks),
              [&] { return std::make_shared<const UnevenShare>(dealt_share(of, rank, nranks)); });
}

UnevenTotals uneven_totals(int nranks, SendPattern of) {
  static std::map<std::pair<SendPattern, int>, UnevenTotals> known;
  static std::mutex mutex;
  return kept(known, mutex, std::pair(of, nranks), [&] { return dealt_totals(of, nranks); });
}

}  // namespace collctl::cmd
