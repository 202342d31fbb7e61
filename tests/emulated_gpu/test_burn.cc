// The burn-in's kernels against products that the host makes one number after the other, and
// against wrong bits.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/burn.h"
#include "kernels/cuda/launcher/launcher.h"
#include "tests/catch.h"
#include "tests/emulated_gpu/machine.h"

namespace burn_kernels_tests {

using namespace collctl::kernels::cuda;

namespace {

constexpr BurnShape kShape{.rows = 128, .columns = 256, .steps = 2};

void done() {
  REQUIRE(emulated::machine().run() == "");
}

struct Matrices {
  explicit Matrices(BurnType type, uint64_t seed = 5)
      : a(burn_a_words(type, kShape)),
        b(burn_b_words(type, kShape)),
        c(burn_c_words(type, kShape)) {
    REQUIRE(kBurnKernels.inputs(type, seed, a.data(), a.size(), nullptr) == 0);
    REQUIRE(kBurnKernels.inputs(type, seed + 1, b.data(), b.size(), nullptr) == 0);
    done();
    product = {.type = type, .shape = kShape, .a = a.data(), .b = b.data(), .c = c.data()};
    product.fault = &fault;
  }
  void multiply() {
    REQUIRE(kBurnKernels.multiply(product, nullptr) == 0);
    done();
  }
  // Aligned as the device's memory is.
  struct Words {
    explicit Words(uint64_t words) : count(words), at(new (std::align_val_t(256)) uint32_t[words]) {
      std::memset(at, 0, words * 4);
    }
    ~Words() { ::operator delete[](at, std::align_val_t(256)); }
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;
    uint32_t* data() { return at; }
    uint64_t size() const { return count; }
    uint32_t& operator[](uint64_t i) { return at[i]; }
    uint64_t count;
    uint32_t* at;
  };
  Words a, b, c;
  BurnProduct product;
  BurnFault fault;
};

// Every sum in the order of the depth, in the type that adds up.
template <class Sum>
uint64_t wrong_sums(BurnType type) {
  Matrices m(type);
  m.multiply();
  uint64_t wrong = 0;
  for (uint32_t row = 0; row < kShape.rows; ++row)
    for (uint32_t column = 0; column < kShape.columns; ++column) {
      Sum sum = 0;
      for (uint32_t k = 0; k < kShape.steps * burn_unit(type).depth; ++k)
        sum = std::fma(Sum(burn_value(type, 5, burn_a(type, kShape, row, k))),
                       Sum(burn_value(type, 6, burn_b(type, kShape, column, k))), sum);
      const uint64_t at = burn_c(type, kShape, row, column);
      wrong += std::memcmp(&m.c[at], &sum, sizeof sum) != 0;
      const BurnElement back = burn_element(type, kShape, at);
      wrong += back.row != row || back.column != column;
    }
  return wrong;
}

}  // namespace

TEST_CASE("burn-in: products are those of the host", "[burn]") {
  CHECK(wrong_sums<float>(BurnType::bf16) == 0);
  CHECK(wrong_sums<float>(BurnType::fp8) == 0);
  CHECK(wrong_sums<float>(BurnType::fp32) == 0);
  CHECK(wrong_sums<double>(BurnType::fp64) == 0);
}

TEST_CASE("burn-in: a wrong bit of a product is found, and where it is", "[burn]") {
  for (int t = 0; t < kBurnTypes; ++t) {
    const auto type = BurnType(t);
    Matrices m(type);
    m.multiply();
    m.product.compare = true;
    m.product.number = 7;
    m.multiply();
    CHECK(m.fault.count == 0);
    const uint64_t word = burn_c(type, kShape, 101, 203);
    m.product.flip_word = word;
    m.multiply();
    CHECK(m.fault.count == 1);
    CHECK(m.fault.word == word);
    CHECK(m.fault.number == 7);
    CHECK(m.fault.expected == m.c[word]);
    CHECK(m.fault.found == (m.c[word] ^ 1u << 13));
    CHECK(burn_element(type, kShape, m.fault.word).row == 101);
    CHECK(burn_element(type, kShape, m.fault.word).column == 203);
    // The next one does not hide the first.
    m.product.number = 8;
    m.multiply();
    CHECK(m.fault.count == 2);
    CHECK(m.fault.number == 7);
  }
}

TEST_CASE("burn-in: bands that differ in a bit have other hashes", "[burn]") {
  Matrices m(BurnType::bf16);
  m.multiply();
  const auto hashes = [&] {
    std::vector<uint64_t> list(4, 0);
    REQUIRE(kBurnKernels.hash(m.c.data(), m.c.size() / 4, 4, list.data(), nullptr) == 0);
    done();
    return list;
  };
  const auto first = hashes();
  CHECK(hashes() == first);
  m.c[m.c.size() / 4 + 3] ^= 1;
  const auto other = hashes();
  CHECK(other[1] != first[1]);
  CHECK(other[0] == first[0]);
  CHECK(other[2] == first[2]);
}

TEST_CASE("burn-in: what memory lost is found by every pattern", "[burn]") {
  constexpr uint64_t kPacks = 3000;
  Matrices::Words memory(4 * kPacks);
  for (int p = 0; p < kBurnPatterns; ++p) {
    BurnFault fault;
    const BurnFill fill{BurnPattern(p), uint32_t(p + 1)}, next{BurnPattern((p + 1) % 6), 9};
    BurnSweep sweep{.memory = memory.data(), .packs = kPacks, .write = true, .fresh = fill};
    sweep.fault = &fault;
    REQUIRE(kBurnKernels.sweep(sweep, nullptr) == 0);
    done();
    sweep.compare = true;
    sweep.old = fill;
    sweep.fresh = next;
    sweep.number = 3;
    memory[7777] ^= 0x40;
    REQUIRE(kBurnKernels.sweep(sweep, nullptr) == 0);
    done();
    CHECK(fault.count == 1);
    CHECK(fault.word == 7777);
    CHECK((fault.expected ^ fault.found) == 0x40);
    CHECK(fault.expected == burn_word(fill, 7777));
    // Wrong words are written anew.
    sweep.old = next;
    sweep.write = false;
    REQUIRE(kBurnKernels.sweep(sweep, nullptr) == 0);
    done();
    CHECK(fault.count == 1);
  }
}

TEST_CASE("burn-in: shapes that no kernel has are refused", "[burn]") {
  Matrices m(BurnType::fp64);
  for (const BurnShape& shape : {BurnShape{}, BurnShape{64, 256, 2}, BurnShape{128, 128, 2},
                                 BurnShape{128, 256, 3}, BurnShape{128, 256, 0}}) {
    m.product.shape = shape;
    CHECK(kBurnKernels.multiply(m.product, nullptr) != 0);
  }
  CHECK(launcher().burn == &kBurnKernels);
}

}  // namespace burn_kernels_tests
