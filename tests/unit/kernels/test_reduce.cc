// Reductions and conversions against the slow oracle, at every SIMD level this machine has.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/reduce.h"
#include "tests/catch.h"
#include "tests/unit/kernels/slow_numbers.h"

namespace reduce_tests {

using namespace collctl::kernels;

namespace {

constexpr DataType kNarrow[] = {DataType::float16, DataType::bfloat16, DataType::float8e4m3,
                                DataType::float8e5m2};

// Forces each level in turn and gives the machine's own back.
struct EachLevel {
  std::string own = simd_level();
  ~EachLevel() { force_simd_level(own.c_str()); }
  template <class Body>
  void run(Body body) {
    for (const char* name : {"scalar", "avx2", "avx512", "neon"}) {
      if (!force_simd_level(name)) continue;
      INFO("level " << name);
      REQUIRE(simd_level() == std::string(name));
      body();
    }
  }
};

// Random bits, with special values strewn in: zeros, ones, infinities, NaNs, extremes, subnormals.
std::vector<uint8_t> random_elements(DataType type, size_t n, std::mt19937_64& random) {
  const size_t size = element_size(type);
  std::vector<uint8_t> bytes(n * size);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = random();
    const int kind = int(random() % 8);
    const uint64_t sign = uint64_t(1) << (8 * size - 1);
    if (kind == 0) bits = random() % 2 ? 0 : sign;
    if (kind == 1) bits = ~uint64_t(0);
    if (kind == 2) bits &= 0xf;
    if (kind >= 5 && slow::is_float(type)) {  // numbers near one, so that sums round
      const float value = float(int(random() % 4096) - 2048) / 64.0f;
      if (type == DataType::float32)
        bits = __builtin_bit_cast(uint32_t, value);
      else if (type == DataType::float64)
        bits = __builtin_bit_cast(uint64_t, double(value) * 1.1);
      else
        bits = slow::encode(type, value);
    }
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

struct Case {
  DataType type;
  RedOp op;
  int sources, destinations;
  size_t n;
  uint32_t divisor = 1;
  size_t offset = 0;      // bytes past an aligned address, growing per array
  bool in_place = false;  // destination 0 is source 0
};

// Runs one case at the level in force; returns the first wrong element, or -1.
long first_wrong(const Case& c, std::mt19937_64& random) {
  const size_t size = element_size(c.type), bytes = c.n * size;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  for (int s = 0; s < c.sources; ++s) {
    const auto elements = random_elements(c.type, c.n, random);
    memory.emplace_back(c.offset * (s + 1) + bytes + 64, uint8_t(0x5a));
    std::copy(elements.begin(), elements.end(), memory.back().begin() + long(c.offset) * (s + 1));
    sources.push_back(memory.back().data() + c.offset * (s + 1));
  }
  std::vector<uint8_t> expected(bytes);
  for (size_t i = 0; i < c.n; ++i) {
    std::vector<const uint8_t*> elements;
    for (const void* s : sources) elements.push_back(static_cast<const uint8_t*>(s) + i * size);
    if (c.sources == 1 && c.divisor == 1)  // a copy, not a number that is rounded again
      std::copy_n(elements[0], size, &expected[i * size]);
    else
      slow::reduce_element(c.type, c.op, elements, c.divisor, &expected[i * size]);
  }
  for (int d = 0; d < c.destinations; ++d) {
    if (d == 0 && c.in_place) {
      destinations.push_back(const_cast<void*>(sources[0]));
      continue;
    }
    memory.emplace_back(c.offset * (d + 2) + bytes + 64, uint8_t(0xa5));
    destinations.push_back(memory.back().data() + c.offset * (d + 2));
  }
  reduce_arrays(c.type, c.op, sources.data(), c.sources, destinations.data(), c.destinations, c.n,
                c.divisor);
  for (int d = 0; d < c.destinations; ++d) {
    const auto* got = static_cast<const uint8_t*>(destinations[size_t(d)]);
    for (size_t i = 0; i < c.n; ++i)
      if (!slow::same_element(c.type, got + i * size, &expected[i * size])) return long(i);
    const uint8_t untouched = d == 0 && c.in_place ? 0x5a : 0xa5;
    for (int guard = 0; guard < 32; ++guard)
      if (got[bytes + size_t(guard)] != untouched) return long(c.n) + guard;
  }
  return -1;
}

std::string describe(const Case& c) {
  return std::string(name_of(c.type)) + " " + name_of(c.op) + " sources " +
         std::to_string(c.sources) + " destinations " + std::to_string(c.destinations) + " n " +
         std::to_string(c.n) + " divisor " + std::to_string(c.divisor) + " offset " +
         std::to_string(c.offset) + (c.in_place ? " in place" : "");
}

}  // namespace

TEST_CASE("widening is exact for every code of every narrow float", "[arithmetic]") {
  for (const DataType type : kNarrow) {
    const uint32_t codes = element_size(type) == 1 ? 256 : 65536;
    for (uint32_t code = 0; code < codes; ++code) {
      const float got = widen_to_float32(type, code);
      const double wanted = slow::decode(type, code);
      if (std::isnan(wanted) ? !std::isnan(got)
                             : double(got) != wanted || std::signbit(got) != std::signbit(wanted)) {
        CAPTURE(name_of(type), code, got, wanted);
        FAIL();
      }
    }
  }
}

TEST_CASE("narrowing gives every code back and rounds to nearest even on both sides of every tie",
          "[arithmetic]") {
  for (const DataType type : kNarrow) {
    const uint32_t half = element_size(type) == 1 ? 128 : 32768;
    for (uint32_t code = 0; code < 2 * half; ++code) {
      const double value = slow::decode(type, code);
      if (std::isnan(value)) {
        REQUIRE(std::isnan(slow::decode(type, narrow_from_float32(type, NAN))));
        continue;
      }
      if (std::isfinite(value)) REQUIRE(narrow_from_float32(type, float(value)) == code);
      // Between this code and the next one away from zero: the tie and its neighbours.
      const double next = slow::decode(type, code + 1);
      if ((code & (half - 1)) == half - 1 || !std::isfinite(next) || !std::isfinite(value))
        continue;
      const float tie = float((value + next) / 2);
      for (const float v : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, 2 * tie)})
        if (narrow_from_float32(type, v) != slow::encode(type, v)) {
          CAPTURE(name_of(type), code, v, narrow_from_float32(type, v), slow::encode(type, v));
          FAIL();
        }
    }
    for (const float v : {65519.0f, 65520.0f, 448.0f, 464.0f, 464.1f, 480.0f, 57344.0f, 61440.0f,
                          61441.0f, 3.3e38f, 3.39e38f, 3.4028e38f, 1e-45f, 1e-38f, 2e-8f, 0.0f})
      for (const float signed_v : {v, -v}) {
        CAPTURE(name_of(type), signed_v);
        CHECK(narrow_from_float32(type, signed_v) == slow::encode(type, signed_v));
      }
    const uint32_t from_infinity = narrow_from_float32(type, HUGE_VALF);
    const bool saturates = element_size(type) == 1;
    CHECK(std::isinf(slow::decode(type, from_infinity)) == !saturates);
    CHECK(slow::decode(type, from_infinity) > 400.0);
  }
}

TEST_CASE("every type and operation agrees with the oracle at lengths 0 to 200 and any alignment",
          "[arithmetic]") {
  EachLevel levels;
  levels.run([] {
    std::mt19937_64 random(7);
    for (int t = 0; t < kDataTypeCount; ++t)
      for (int o = 0; o < kRedOpCount; ++o)
        for (size_t n = 0; n <= 200; n += n < 70 ? 1 : 13) {
          Case c{DataType(t), RedOp(o), 2, 1, n};
          c.destinations = n == 41 ? kMaxReduceDestinations : 1 + int(n % 3);
          c.sources = n % 5 == 0 ? 1 + int(random() % 4) : 2;
          c.divisor = c.op == RedOp::avg ? 1 + uint32_t(random() % 9) : 1;
          c.offset = n % 4 == 3 ? random() % 9 : 0;
          c.in_place = n % 2 == 1;
          const long wrong = first_wrong(c, random);
          if (wrong >= 0) {
            CAPTURE(describe(c), wrong);
            FAIL();
          }
        }
  });
}

TEST_CASE("long arrays agree with the oracle, aligned or not", "[arithmetic]") {
  EachLevel levels;
  levels.run([] {
    std::mt19937_64 random(11);
    for (int t = 0; t < kDataTypeCount; ++t)
      for (const size_t offset : {size_t(0), size_t(1), size_t(element_size(DataType(t)))})
        for (const int destinations : {1, 2, 4}) {
          Case c{DataType(t), RedOp(int(random() % kRedOpCount)), destinations == 4 ? 4 : 2,
                 destinations, 4099};
          c.offset = offset;
          c.divisor = c.op == RedOp::avg ? 3 : 1;
          const long wrong = first_wrong(c, random);
          if (wrong >= 0) {
            CAPTURE(describe(c), wrong);
            FAIL();
          }
        }
  });
}

TEST_CASE("every pair of float8 codes is summed, multiplied and compared right at every level",
          "[arithmetic]") {
  EachLevel levels;
  levels.run([] {
    std::vector<uint8_t> a(65536), b(65536), got(65536);
    for (int i = 0; i < 65536; ++i) a[size_t(i)] = uint8_t(i), b[size_t(i)] = uint8_t(i >> 8);
    for (const DataType type : {DataType::float8e4m3, DataType::float8e5m2})
      for (const RedOp op : {RedOp::sum, RedOp::prod, RedOp::min, RedOp::max}) {
        const void* sources[] = {a.data(), b.data()};
        void* destination = got.data();
        reduce_arrays(type, op, sources, 2, &destination, 1, 65536, 1);
        for (size_t i = 0; i < 65536; ++i) {
          uint8_t wanted[8], have[8] = {got[i]};
          slow::reduce_element(type, op, {&a[i], &b[i]}, 1, wanted);
          if (!slow::same_element(type, have, wanted)) {
            CAPTURE(name_of(type), name_of(op), int(a[i]), int(b[i]), int(got[i]), int(wanted[0]));
            FAIL();
          }
        }
      }
  });
}

TEST_CASE("copies to several places, itself among them", "[arithmetic]") {
  std::vector<uint8_t> from(100'003), one(from.size()), two(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 7 + i / 256);
  const auto kept = from;
  void* to[] = {one.data(), from.data(), two.data()};
  copy_to_all(from.data(), to, 3, from.size());
  CHECK(one == kept);
  CHECK(two == kept);
  CHECK(from == kept);
}

TEST_CASE("a level that does not exist is refused and changes nothing", "[arithmetic]") {
  const std::string before = simd_level();
  CHECK_FALSE(force_simd_level("sse9"));
  CHECK(simd_level() == before);
}

}  // namespace reduce_tests
