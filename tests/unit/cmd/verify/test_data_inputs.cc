// The inputs of the data check: one exact result for every order of the arithmetic, with the
// rounding of narrow types after every step; and every fault of interest changes the result.
#include <cmath>
#include <random>
#include <set>

#include "cmd/measure/soak.h"
#include "cmd/verify/data_inputs.h"
#include "cmd/verify/guarded_buffer.h"
#include "cmd/verify/number_forms.h"
#include "tests/catch.h"
#include "tests/how_much.h"

namespace verify_data_inputs_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::DataType;
using kernels::RedOp;

namespace {

std::string label(const DataKind& kind) {
  return std::to_string(int(kind.type)) + "/" + std::to_string(int(kind.op)) + "/" +
         std::to_string(kind.nranks);
}

// One step of a reduction as a backend does it: narrow floats in float32, rounded to the type.
uint64_t combine(DataType type, RedOp op, uint64_t a, uint64_t b) {
  if (op == RedOp::min || op == RedOp::max) {
    const bool less = is_float(type) ? decode_float(type, a) < decode_float(type, b)
                                     : order_key(type, a) < order_key(type, b);
    return less == (op == RedOp::min) ? a : b;
  }
  if (!is_float(type)) return op == RedOp::prod ? a * b : a + b;
  const double x = decode_float(type, a), y = decode_float(type, b);
  if (type == DataType::float64) return encode_float(type, op == RedOp::prod ? x * y : x + y);
  const float r = op == RedOp::prod ? float(x) * float(y) : float(x) + float(y);
  return encode_float(type, double(r));
}

uint64_t finish(const DataKind& kind, uint64_t total) {
  const uint32_t bytes = kernels::element_size(kind.type);
  const uint64_t mask = bytes == 8 ? ~uint64_t(0) : (uint64_t(1) << bytes * 8) - 1;
  if (kind.op != RedOp::avg) return total & mask;
  if (!is_float(kind.type)) {
    const uint64_t sum = wrap_integer(kind.type, total);
    return (is_signed_integer(kind.type) ? uint64_t(int64_t(sum) / kind.nranks)
                                         : sum / uint64_t(kind.nranks)) &
           mask;
  }
  const double sum = decode_float(kind.type, total);
  if (kind.type == DataType::float64) return encode_float(kind.type, sum / kind.nranks);
  return encode_float(kind.type, double(float(sum) / float(kind.nranks)));
}

// Folds the terms in a random tree: picks two at random until one is left.
uint64_t random_tree(const DataKind& kind, std::vector<uint64_t> terms, std::mt19937& random) {
  while (terms.size() > 1) {
    const size_t a = random() % terms.size();
    std::swap(terms[a], terms.back());
    const uint64_t x = terms.back();
    terms.pop_back();
    uint64_t& y = terms[random() % terms.size()];
    y = combine(kind.type, kind.op, x, y);
  }
  return terms[0];
}

uint64_t chain(const DataKind& kind, const std::vector<uint64_t>& terms, size_t start) {
  uint64_t total = terms[start];
  for (size_t k = 1; k < terms.size(); ++k)
    total = combine(kind.type, kind.op, total, terms[(start + k) % terms.size()]);
  return total;
}

void prove(const DataKind& kind, uint32_t stride, std::mt19937& random) {
  INFO(label(kind));
  const Pattern expected = reduced_pattern(kind);
  std::vector<uint64_t> terms(size_t(kind.nranks));
  uint64_t wrong = 0;
  for (uint32_t e = uint32_t(random() % stride); e < kPatternPeriod; e += stride) {
    for (int rank = 0; rank < kind.nranks; ++rank)
      terms[size_t(rank)] = input_pattern(kind, rank, {e, 1}).at(e);
    const uint64_t want = expected.at(e);
    wrong += finish(kind, chain(kind, terms, random() % terms.size())) != want;
    wrong += finish(kind, random_tree(kind, terms, random)) != want;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("number forms: every bit pattern survives decode and encode", "[data]") {
  for (DataType type :
       {DataType::float8e4m3, DataType::float8e5m2, DataType::float16, DataType::bfloat16}) {
    const uint32_t count = kernels::element_size(type) == 1 ? 256 : 65536;
    uint32_t kept = 0, finite = 0;
    for (uint32_t bits = 0; bits < count; ++bits) {
      const double value = decode_float(type, bits);
      if (!std::isfinite(value)) continue;
      ++finite;
      kept += encode_float(type, value) == bits;
    }
    INFO(int(type));
    CHECK(finite > count / 2);
    CHECK(kept == finite);
  }
  CHECK(decode_float(DataType::float8e4m3, 0x7e) == 448.0);
  CHECK(decode_float(DataType::float8e5m2, 0x7b) == 57344.0);
  CHECK(encode_float(DataType::float8e4m3, 1000.0) == 0x7e);
  CHECK(encode_float(DataType::float16, 65519.0) == 0x7bff);
  CHECK(encode_float(DataType::float16, 65520.0) == 0x7c00);
  CHECK(encode_float(DataType::bfloat16, 1.00390625) == 0x3f80);  // halfway: to even
  CHECK(encode_float(DataType::bfloat16, 1.01171875) == 0x3f82);
  CHECK(encode_float(DataType::float8e5m2, std::ldexp(1.0, -16)) == 1);
  CHECK(encode_float(DataType::float8e5m2, std::ldexp(-1.0, -18)) == 0x80);
}

TEST_CASE("inputs: any order of the arithmetic gives the one expected result", "[data]") {
  std::mt19937 random(1);
  for (int t = 0; t < kernels::kDataTypeCount; ++t) {
    for (int o = 0; o < kernels::kRedOpCount; ++o) {
      for (int n = 1; n <= 33; n += test::how_much(test::Sweep::data_orders))
        prove({DataType(t), true, RedOp(o), n}, 97, random);
      prove({DataType(t), true, RedOp(o), 64}, 97, random);
      prove({DataType(t), true, RedOp(o), 200}, 499, random);
      prove({DataType(t), true, RedOp(o), 1024}, 1999, random);
    }
  }
}

TEST_CASE("inputs: a contribution missing, doubled or foreign changes the result", "[data]") {
  for (int t = 0; t < kernels::kDataTypeCount; ++t) {
    for (int n : {2, 3, 4, 8, 16}) {
      const DataKind kind{DataType(t), true, RedOp::sum, n};
      INFO(label(kind));
      const Pattern expected = reduced_pattern(kind);
      std::vector<Pattern> inputs;
      for (int rank = 0; rank < n; ++rank) inputs.push_back(input_pattern(kind, rank));
      for (int victim = 0; victim < n; ++victim) {
        uint32_t missing = 0, doubled = 0, foreign = 0;
        for (uint32_t e = 0; e < 400; ++e) {
          uint64_t without = 0, twice = 0, other = 0;
          for (int rank = 0; rank < n; ++rank) {
            const uint64_t term = inputs[size_t(rank)].at(e);
            const uint64_t stray = inputs[size_t(rank)].at(e + 1024);  // a chunk further on
            if (rank != victim) without = combine(kind.type, kind.op, without, term);
            twice = combine(kind.type, kind.op, twice, term);
            if (rank == victim) twice = combine(kind.type, kind.op, twice, term);
            other = combine(kind.type, kind.op, other, rank == victim ? stray : term);
          }
          missing += finish(kind, without) != expected.at(e);
          doubled += finish(kind, twice) != expected.at(e);
          foreign += finish(kind, other) != expected.at(e);
        }
        // fp8 holds so few numbers that each rank contributes to some elements only.
        CHECK(missing >= (n <= 4 ? 400u : 60u));
        CHECK(doubled == missing);
        CHECK(foreign >= 60u);
      }
    }
  }
}

TEST_CASE("inputs: fill, compare and partial tables agree", "[data]") {
  const DataKind kind{DataType::bfloat16, false, RedOp::sum, 4};
  const Pattern whole = input_pattern(kind, 2);
  std::vector<uint16_t> data(20000);
  whole.fill(data.data(), 12345, data.size());
  CHECK(data[5] == whole.at(12350));
  CHECK(data[0] == data[kPatternPeriod]);
  CHECK(whole.compare(data.data(), 12345, data.size()).bad == 0);
  data[7] ^= 1;
  data[19999] ^= 0x8000;
  const Mismatch found = whole.compare(data.data(), 12345, data.size());
  CHECK(found.bad == 2);
  CHECK(found.first == 7);
  CHECK(found.last == 19999);
  const Pattern part = input_pattern(kind, 2, {kPatternPeriod * 3 - 2, 5});
  std::vector<uint16_t> few(5), same(5);
  part.fill(few.data(), kPatternPeriod * 3 - 2, 5);
  whole.fill(same.data(), kPatternPeriod - 2, 5);
  CHECK(few == same);
  std::set<uint16_t> values(data.begin(), data.begin() + 1000);
  CHECK(values.size() > 900);
}

TEST_CASE("the soak's numbers are those of splitmix64", "[data_inputs]") {
  SeededNumbers numbers(0);
  CHECK(numbers.next() == 0xE220A8397B1DCDAFu);
  CHECK(numbers.next() == 0x6E789E6AA1B965F4u);
  CHECK(numbers.next() == 0x06C45D188009454Fu);
}

TEST_CASE("a buffer whose memory somebody still uses is not given back", "[data_inputs]") {
  volatile uint8_t* used = nullptr;
  {
    GuardedBuffer buffer;
    REQUIRE(buffer.reserve(4096));
    REQUIRE(buffer.poison(4096));
    used = buffer.data();
    buffer.keep_allocated();
    GuardedBuffer moved = std::move(buffer);
    CHECK(moved.data() == used);
  }
  CHECK(used[4095] == kPoison);
  used[0] = 1;
}

}  // namespace verify_data_inputs_tests
