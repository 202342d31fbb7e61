// One rank's side of a collective in the CPU backend's tests: buffers with poison and guards,
// inputs for which every order of summation is exact, the Work, and the check against the expected
// outputs. Used by one thread at a time.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/algo/ids.h"
#include "kernels/algo/tree_shape.h"
#include "kernels/chunk.h"
#include "kernels/contract/work.h"
#include "tests/unit/kernels/slow_numbers.h"

namespace cpu_tests {

using namespace collctl::kernels;

struct Case {
  AlgorithmId algorithm = AlgorithmId::ring;
  Collective collective = Collective::all_reduce;
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  Protocol protocol = Protocol::simple;
  uint64_t count = 64;
  int root = 0;
  bool in_place = false;
  size_t misalign = 0;        // bytes past an aligned address
  uint64_t chunk_bytes = 64;  // a multiple of 16
};

inline std::string describe(const Case& c, int rank, int nranks) {
  return std::string(name_of(c.algorithm)) + " " + name_of(c.collective) + " " + name_of(c.type) +
         " " + name_of(c.op) + " " + name_of(c.protocol) + " count " + std::to_string(c.count) +
         " root " + std::to_string(c.root) + (c.in_place ? " in place" : "") + " misalign " +
         std::to_string(c.misalign) + " chunk " + std::to_string(c.chunk_bytes) + " rank " +
         std::to_string(rank) + "/" + std::to_string(nranks);
}

// The value that rank r contributes at element i; small whole numbers that every type and every
// partial result holds exactly.
inline int contribution(const Case& c, int r, uint64_t i, int n) {
  const bool is_unsigned = number_kind(c.type) == NumberKind::integer && !is_signed_integer(c.type);
  const bool mine = uint64_t(r) == i % uint64_t(n);
  switch (c.op) {
    case RedOp::prod:
      return mine ? ((i / uint64_t(n)) % 2 == 0 ? 3 : is_unsigned ? 2 : -2) : 1;
    case RedOp::min:
    case RedOp::max:
      return int((i * 7 + uint64_t(r) * 5) % 11) - (is_unsigned ? 0 : 5);
    default:
      if (element_size(c.type) == 1 && slow::is_narrow(c.type))
        return mine ? int(1 + (i / uint64_t(n)) % 3) : 0;
      return int((i * 31 + uint64_t(r) * 17) % 13) - (is_unsigned ? 0 : 6);
  }
}

inline void store_number(DataType type, double value, uint8_t* to) {
  switch (type) {
#define COLL_DATA_TYPE(id, kind, storage, ...)                                     \
  case DataType::id:                                                               \
    return slow::store(to, NumberKind::kind == NumberKind::narrow                  \
                               ? storage(slow::encode(DataType::id, float(value))) \
                               : storage(value));
#include "kernels/contract/data_types.inc"
  }
}

inline double reduced(const Case& c, uint64_t i, int n) {
  int result = contribution(c, 0, i, n);
  for (int r = 1; r < n; ++r) {
    const int next = contribution(c, r, i, n);
    if (c.op == RedOp::prod)
      result *= next;
    else if (c.op == RedOp::min)
      result = std::min(result, next);
    else if (c.op == RedOp::max)
      result = std::max(result, next);
    else
      result += next;
  }
  if (c.op != RedOp::avg) return result;
  if (!slow::is_float(c.type)) return result / n;
  if (c.type == DataType::float64) return double(result) / n;
  return double(float(result) / float(n));
}

class Operation {
 public:
  Operation(const Case& c, int rank, int nranks) : c_(c), rank_(rank), n_(nranks) {
    const uint64_t all = c.count * uint64_t(n_);
    const bool many_in = c.collective == Collective::reduce_scatter ||
                         c.collective == Collective::all_to_all ||
                         c.collective == Collective::scatter;
    const bool many_out = c.collective == Collective::all_gather ||
                          c.collective == Collective::all_to_all ||
                          c.collective == Collective::gather;
    in_elements_ = many_in ? all : c.count;
    out_elements_ = many_out ? all : c.count;
    in_place_ = c.in_place && c.collective != Collective::all_to_all &&
                c.collective != Collective::send_recv;
    const uint64_t own = uint64_t(rank_) * c.count;
    memory_.assign(kGuard * 2 + c.misalign + bytes(std::max(in_elements_, out_elements_)), kPoison);
    if (in_place_) {
      uint8_t* base = memory_.data() + kGuard + c.misalign;
      input_ = base + (many_out ? bytes(own) : 0);
      output_ = base + (many_in ? bytes(own) : 0);
    } else {
      input_memory_.assign(memory_.size(), kPoison);
      input_ = input_memory_.data() + kGuard + c.misalign;
      output_ = memory_.data() + kGuard + c.misalign;
    }
    for (uint64_t i = 0; i < in_elements_; ++i)
      store_number(c.type, contribution(c, rank_, i, n_), input_ + bytes(i));
    for (int i = 0; i < n_; ++i) order_.push_back((i * 3 + 1) % n_);
    if (n_ % 3 == 0)
      for (int i = 0; i < n_; ++i) order_[size_t(i)] = i;
    make_pairs();
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Work work(int channel = 0, int channels = 1) const {
    Work w{};
    w.input = input_;
    w.output = output_;
    w.count = c_.count;
    const uint64_t grain = chunk_grain(c_.type);
    const uint64_t parts = uint64_t(channels);
    const uint64_t share = ((c_.count + parts - 1) / parts + grain - 1) / grain * grain;
    w.part_offset = std::min(c_.count, share * uint64_t(channel));
    w.part_count = std::min(share, c_.count - w.part_offset);
    w.chunk_count = std::max<uint64_t>(c_.chunk_bytes / element_size(c_.type), grain);
    const int index = int(std::find(order_.begin(), order_.end(), rank_) - order_.begin());
    w.ring.index = index;
    w.ring.next = order_[size_t((index + 1) % n_)];
    w.ring.prev = order_[size_t((index + n_ - 1) % n_)];
    w.ring.order = order_.data();
    w.tree = binary_tree(rank_, n_);
    w.pairs = pairs_.data();
    w.pair_count = uint32_t(pairs_.size());
    w.rank = rank_;
    w.nranks = n_;
    w.root = c_.root;
    w.op_count = 7;
    w.collective = c_.collective;
    w.algorithm = c_.algorithm;
    w.protocol = c_.protocol;
    w.type = c_.type;
    w.op = c_.op;
    w.channel = uint16_t(channel);
    return w;
  }

  // Empty, or the first thing that is wrong.
  std::string check() const {
    const bool keeps =
        (c_.collective != Collective::reduce && c_.collective != Collective::gather) ||
        rank_ == c_.root;
    uint8_t wanted[8];
    for (uint64_t i = 0; keeps && i < out_elements_; ++i) {
      store_number(c_.type, expected(i), wanted);
      if (!slow::same_element(c_.type, output_ + bytes(i), wanted))
        return describe(c_, rank_, n_) + ": element " + std::to_string(i) + " wrong";
    }
    if (!keeps && !in_place_)
      for (uint64_t i = 0; i < bytes(out_elements_); ++i)
        if (output_[i] != kPoison)
          return describe(c_, rank_, n_) + ": wrote where it keeps nothing";
    for (size_t i = 0; i < kGuard; ++i)
      if (memory_[i] != kPoison || memory_[memory_.size() - 1 - i] != kPoison)
        return describe(c_, rank_, n_) + ": wrote outside its buffer";
    return "";
  }

  uint8_t* output() { return output_; }
  // All that work() points to, for tests that run it in another memory: they copy it there and
  // back.
  std::vector<uint8_t>& memory() { return memory_; }
  std::vector<uint8_t>& input_memory() { return input_memory_; }
  const std::vector<int32_t>& order() const { return order_; }
  const std::vector<PairStep>& pairs() const { return pairs_; }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPoison = 0xa5;

  uint64_t bytes(uint64_t elements) const { return elements * element_size(c_.type); }

  double expected(uint64_t i) const {
    const uint64_t own = uint64_t(rank_) * c_.count;
    const int block = c_.count > 0 ? int(i / c_.count) : 0;
    const uint64_t inside = c_.count > 0 ? i % c_.count : 0;
    switch (c_.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
      case Collective::barrier:
        return reduced(c_, i, n_);
      case Collective::reduce_scatter:
        return reduced(c_, own + i, n_);
      case Collective::broadcast:
        return contribution(c_, c_.root, i, n_);
      case Collective::all_gather:
      case Collective::gather:
        return contribution(c_, block, inside, n_);
      case Collective::all_to_all:
        return contribution(c_, block, own + inside, n_);
      case Collective::scatter:
        return contribution(c_, c_.root, own + i, n_);
      case Collective::send_recv:
        return contribution(c_, (rank_ + n_ - 1) % n_, i, n_);
    }
    return 0;
  }

  void make_pairs() {
    const auto in = [&](int block) { return input_ + bytes(uint64_t(block) * c_.count); };
    const auto out = [&](int block) { return output_ + bytes(uint64_t(block) * c_.count); };
    const auto add = [&](const uint8_t* from, int to_rank, uint8_t* to, int from_rank) {
      pairs_.push_back(
          {from, to, to_rank < 0 ? 0 : c_.count, from_rank < 0 ? 0 : c_.count, to_rank, from_rank});
    };
    if (c_.collective == Collective::send_recv)
      add(input_, (rank_ + 1) % n_, output_, (rank_ + n_ - 1) % n_);
    for (int d = 0; d < n_; ++d) {
      const int to = (rank_ + d) % n_, from = (rank_ + n_ - d) % n_, other = (c_.root + d) % n_;
      const bool root = rank_ == c_.root;
      if (c_.collective == Collective::all_to_all) add(in(to), to, out(from), from);
      if (c_.collective == Collective::gather && (root || rank_ == other))
        add(input_, rank_ == other ? c_.root : -1, out(root ? other : 0), root ? other : -1);
      if (c_.collective == Collective::scatter && (root || rank_ == other))
        add(in(root ? other : 0), root ? other : -1, output_, rank_ == other ? c_.root : -1);
    }
  }

  const Case c_;
  const int rank_, n_;
  uint64_t in_elements_, out_elements_;
  bool in_place_;
  std::vector<uint8_t> memory_, input_memory_;
  uint8_t* input_;
  uint8_t* output_;
  std::vector<int32_t> order_;
  std::vector<PairStep> pairs_;
};

}  // namespace cpu_tests
