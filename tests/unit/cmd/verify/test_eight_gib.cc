// Rows of 8 GiB, whose elements go beyond 32 bits: sizes, messages, the parts that are checked and
// the values there, without the memory.
#include <algorithm>

#include "cmd/verify/row.h"
#include "tests/catch.h"

namespace eight_gib_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::DataType;

namespace {

constexpr uint64_t kRow = uint64_t(8) << 30;
constexpr uint64_t kInputAt = uint64_t(1) << 44, kOutputAt = uint64_t(2) << 44;

struct Stretch {
  uint64_t from, to;
};
// Whether they lie one behind the other, from 0 to `end`.
bool covers(std::vector<Stretch> list, uint64_t end) {
  std::ranges::sort(list, {}, &Stretch::from);
  uint64_t at = 0;
  for (const Stretch& each : list) {
    if (each.from != at) return false;
    at = each.to;
  }
  return at == end;
}

}  // namespace

TEST_CASE("a row of 8 GiB is one, whatever its type and ranks", "[bench]") {
  for (const BenchOp& op : bench_ops())
    for (const int n : {1, 2, 8, 64})
      for (const uint32_t element : {1u, 2u, 4u, 8u}) {
        if (like(op) == kernels::Collective::barrier) continue;
        INFO(name_of(op) << " of " << n << " ranks, elements of " << element);
        const SizePoint point = size_point(op, kRow, n, element);
        CHECK(point.bytes == kRow);
        CHECK((point.count * element == kRow || point.count * element * uint64_t(n) == kRow));
      }
}

TEST_CASE("messages and checked parts of 8 GiB lie in their buffers, to the last byte", "[bench]") {
  for (const BenchOp& op : bench_ops())
    for (const int n : {2, 8})
      for (int rank = 0; rank < n; rank += n - 1) {
        if (like(op) == kernels::Collective::barrier) continue;
        INFO(name_of(op) << ", rank " << rank << " of " << n);
        const Place place{rank, n, 0};
        RowKey key{.collective = op, .type = DataType::int8, .op = {}, .root = 0, .size = {}};
        key.size = size_point(op, kRow, n, 1);
        const BufferShape shape = buffer_shape(op, key.size.count, place);
        std::vector<Stretch> sent, checked;
        for (const Submission& submission :
             submissions_at(key, place, reinterpret_cast<const void*>(kInputAt),
                            reinterpret_cast<void*>(kOutputAt), false))
          for (const runtime::Operation& each : submission) {
            if (each.collective != kernels::Collective::send_recv) continue;
            const auto in = reinterpret_cast<uint64_t>(each.input),
                       out = reinterpret_cast<uint64_t>(each.output);
            if (each.output != nullptr) CHECK(out - kOutputAt + each.count <= shape.output);
            if (each.input == nullptr) continue;
            if (in < kOutputAt) sent.push_back({in - kInputAt, in - kInputAt + each.count});
            if (in >= kOutputAt) CHECK(in - kOutputAt + each.count <= shape.output);
          }
        if (is_uneven(op)) CHECK(covers(sent, shape.input));
        for (const Segment& part : output_segments(op, key.size.count, place, false))
          checked.push_back({part.at, part.at + part.count});
        CHECK(covers(checked, shape.output));
      }
}

TEST_CASE("values beyond 2^32 elements are those of their place in the pattern", "[bench]") {
  const DataKind kind{DataType::int8, false, {}, 8};
  const Pattern pattern = input_pattern(kind, 3);
  constexpr uint64_t kFar = kRow - 5000;
  std::vector<uint8_t> bytes(5000);
  pattern.fill(bytes.data(), kFar, bytes.size());
  for (uint64_t i = 0; i < bytes.size(); i += 499)
    CHECK(bytes[i] == pattern.at((kFar + i) % kPatternPeriod));
  CHECK(pattern.compare(bytes.data(), kFar, bytes.size()).bad == 0);
  // As if the place had been cut to 32 bits.
  CHECK(pattern.compare(bytes.data(), uint32_t(kFar), bytes.size()).bad > 0);
  bytes[4999] ^= 1;
  const Mismatch found = pattern.compare(bytes.data(), kFar, bytes.size());
  CHECK(found.bad == 1);
  CHECK(found.first == 4999);
}

}  // namespace eight_gib_tests
