#include "cmd/verify/buffer_shape.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/format.h"
#include "cmd/verify/data_inputs.h"

namespace collctl::cmd {

using kernels::Collective;

Result<std::vector<uint64_t>> size_series(const SizeRange& range) {
  if (range.min_bytes > range.max_bytes)
    return Error{ErrorCode::usage, format("the smallest size ({} bytes) is above the largest ({})",
                                          range.min_bytes, range.max_bytes)};
  if (range.step_bytes == 0 && range.step_factor < 2 && range.min_bytes != range.max_bytes)
    return Error{ErrorCode::usage,
                 format("the step factor is {}; expected 2 or more", range.step_factor)};
  std::vector<uint64_t> sizes;
  uint64_t size = range.min_bytes;
  for (;;) {
    sizes.push_back(size);
    if (sizes.size() > kMaxSizes)
      return Error{ErrorCode::usage,
                   format("more than {} sizes between {} and {} bytes", kMaxSizes, range.min_bytes,
                          range.max_bytes),
                   "use a larger step"};
    if (range.step_bytes != 0) {
      if (range.max_bytes - size < range.step_bytes) break;
      size += range.step_bytes;
    } else {
      if (size == range.max_bytes) break;
      if (size > range.max_bytes / range.step_factor) break;
      // Nothing, and then what holds an element of each type.
      size = size == 0 ? std::min<uint64_t>(8, range.max_bytes) : size * range.step_factor;
    }
  }
  return sizes;
}

SizePoint size_point(const BenchOp& op, uint64_t asked_bytes, int nranks, uint32_t element_bytes) {
  SizePoint point;
  const uint64_t elements = asked_bytes / element_bytes;
  switch (like(op)) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      point.count = elements;
      point.bytes = elements * element_bytes;
      break;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
      point.count = elements / uint64_t(nranks);
      point.bytes = point.count * uint64_t(nranks) * element_bytes;
      break;
    case Collective::barrier:
      break;
  }
  return point;
}

BufferShape buffer_shape(const BenchOp& op, uint64_t count, const Place& place) {
  const uint64_t all = count * uint64_t(place.nranks);
  const uint64_t mine = count * uint64_t(place.rank);
  const bool at_root = place.rank == place.root;
  BufferShape shape;
  shape.has_in_place = has_in_place_form(op);
  switch (like(op)) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
      shape.input = shape.output = count;
      break;
    case Collective::all_gather:
      shape.input = count;
      shape.output = all;
      shape.in_place_input = mine;
      break;
    case Collective::reduce_scatter:
      shape.input = all;
      shape.output = count;
      shape.in_place_output = mine;
      break;
    case Collective::gather:  // only the root has an output, only there the two can overlap
      shape.input = count;
      shape.output = at_root ? all : 0;
      shape.in_place_input = at_root ? mine : 0;
      break;
    case Collective::scatter:
      shape.input = at_root ? all : 0;
      shape.output = count;
      shape.in_place_output = at_root ? mine : 0;
      break;
    case Collective::all_to_all:
      shape.input = shape.output = all;
      break;
    case Collective::barrier:
      break;
  }
  if (op == kAllToAllV) shape.output = count * uneven_share(place.rank, place.nranks)->room;
  shape.in_place_elements = std::max(shape.input, shape.output);
  return shape;
}

uint64_t most_output(const BenchOp& op, uint64_t count, int nranks) {
  if (op == kAllToAllV) return count * uneven_totals(nranks).room;
  return buffer_shape(op, count, {0, nranks, 0}).output;
}

double bus_factor(const BenchOp& op, int nranks) {
  const double n = nranks;
  if (op == kAllToAllV) return double(uneven_totals(nranks).busiest) / n;
  switch (like(op)) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_recv:
    case Collective::barrier:
      return 1;
  }
  return 1;
}

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

// Values are made once: every row asks for them several times, and for many ranks it takes a while.
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
