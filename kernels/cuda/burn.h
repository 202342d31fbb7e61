// Kernels of the burn-in: matrix products that keep a GPU's multiprocessors busy and of which every
// bit is known, and patterns over its memory. The same product on the same kind of GPU is the same
// bits: sums have a fixed order, and nothing but sums of integers is done by atomics. A matrix lies
// in memory as the lanes of a warp take it (burn_at()), so that a kernel needs no shared memory.
// Plain C++ for every build. Launches are asynchronous and return cudaError_t numbers, as all of
// launch.h; the device's context must be the calling thread's. The functions about memory are pure.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels::cuda {

enum class BurnType : uint8_t { bf16, fp8, fp32, fp64 };  // fp8: e4m3, from 89 on
inline constexpr int kBurnTypes = 4;

// C = A x B, rows a multiple of 128, columns of 256. A step is as deep as the unit of the type.
struct BurnShape {
  uint32_t rows = 0, columns = 0, steps = 0;  // steps: even
};
// The unit: 16 rows by so many columns and so deep.
struct BurnUnit {
  uint32_t columns, depth;
  uint32_t a_words, b_words, sum_words;  // of 32 bits: of a unit of A, of B; of a lane's sums
  uint32_t word_values;                  // inputs in a word; 0: half of one
};
COLL_FN constexpr BurnUnit burn_unit(BurnType type) {
  switch (type) {
    case BurnType::bf16:
      return {8, 16, 128, 64, 4, 2};
    case BurnType::fp8:
      return {8, 32, 128, 64, 4, 4};
    case BurnType::fp32:
      return {16, 1, 16, 16, 8, 1};
    default:
      return {8, 4, 128, 64, 8, 0};
  }
}
// Words of A, of B and of C.
COLL_FN constexpr uint64_t burn_a_words(BurnType type, const BurnShape& s) {
  return uint64_t(s.rows / 16) * s.steps * burn_unit(type).a_words;
}
COLL_FN constexpr uint64_t burn_b_words(BurnType type, const BurnShape& s) {
  return uint64_t(s.columns / burn_unit(type).columns) * s.steps * burn_unit(type).b_words;
}
COLL_FN constexpr uint64_t burn_c_words(BurnType type, const BurnShape& s) {
  return uint64_t(s.rows) * s.columns * (type == BurnType::fp64 ? 2 : 1);
}
COLL_FN constexpr double burn_flops(BurnType type, const BurnShape& s) {
  return 2.0 * s.rows * s.columns * s.steps * burn_unit(type).depth;
}

// 32 bits that look random, of a place and a seed.
COLL_FN constexpr uint32_t burn_bits(uint64_t seed, uint64_t place) {
  uint64_t v = (place + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
  v = (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9u;
  return uint32_t((v ^ (v >> 32)) >> 3);
}
// Word `word` of a matrix: numbers between 1 and 2 with either sign and random fractions.
COLL_FN constexpr uint32_t burn_input(BurnType type, uint64_t seed, uint64_t word) {
  const uint32_t bits = burn_bits(seed, word);
  switch (type) {
    case BurnType::bf16:
      return (bits & 0x807f807fu) | 0x3f803f80u;
    case BurnType::fp8:
      return (bits & 0x87878787u) | 0x38383838u;
    case BurnType::fp32:
      return (bits & 0x807fffffu) | 0x3f800000u;
    default:
      return word % 2 == 0 ? bits : (bits & 0x800fffffu) | 0x3ff00000u;
  }
}

// Places of a number: of A by row and depth, of B by column and depth, of C by row and column.
struct BurnPlace {
  uint64_t word = 0;  // the first of its matrix; fp64 has the high half behind it
  uint32_t part = 0;  // bf16, fp8: which of the word
};
BurnPlace burn_a(BurnType type, const BurnShape& shape, uint32_t row, uint32_t depth);
BurnPlace burn_b(BurnType type, const BurnShape& shape, uint32_t column, uint32_t depth);
uint64_t burn_c(BurnType type, const BurnShape& shape, uint32_t row, uint32_t column);
struct BurnElement {
  uint32_t row = 0, column = 0;
};
BurnElement burn_element(BurnType type, const BurnShape& shape, uint64_t word);
// The value of an input.
double burn_value(BurnType type, uint64_t seed, const BurnPlace& place);

// Contents of memory.
enum class BurnPattern : uint8_t { address, not_address, random, not_random, bit, not_bit };
inline constexpr int kBurnPatterns = 6;
struct BurnFill {
  BurnPattern pattern = BurnPattern::address;
  uint32_t seed = 0;
};
COLL_FN constexpr uint32_t burn_word(const BurnFill& fill, uint64_t word) {
  const uint32_t turned = (uint32_t(fill.pattern) & 1) != 0 ? ~0u : 0u;
  switch (fill.pattern) {
    case BurnPattern::address:
    case BurnPattern::not_address:
      return (uint32_t(word) + uint32_t(word >> 32) * 0x9e3779b9u) ^ turned;
    case BurnPattern::random:
    case BurnPattern::not_random:
      return burn_bits(fill.seed, word) ^ turned;
    default:
      return (1u << ((word + fill.seed) % 32)) ^ turned;
  }
}

// Memory of the device, zeros at first. The first wrong word stays, and how many there were.
struct BurnFault {
  uint64_t count = 0;
  uint64_t word = 0;    // of C, or of the memory
  uint32_t number = 0;  // as the launch had it
  uint32_t expected = 0, found = 0;
  uint32_t taken = 0;
};
inline constexpr uint64_t kNoBurnWord = ~uint64_t{0};

struct BurnProduct {
  BurnType type = BurnType::bf16;
  BurnShape shape;
  const uint32_t *a = nullptr, *b = nullptr;
  uint32_t* c = nullptr;  // written, or what the product is held against
  bool compare = false;
  uint32_t number = 0;
  uint64_t flip_word = kNoBurnWord;  // tests: this word of the product gets a wrong bit
  BurnFault* fault = nullptr;
};
// Looks at `packs` times 16 bytes, then writes them.
struct BurnSweep {
  uint32_t* memory = nullptr;
  uint64_t packs = 0;
  bool compare = false, write = false;
  BurnFill old, fresh;
  uint32_t number = 0;
  BurnFault* fault = nullptr;
};

struct BurnKernels {
  int (*inputs)(BurnType type, uint64_t seed, uint32_t* to, uint64_t words, void* stream);
  int (*multiply)(const BurnProduct& product, void* stream);
  int (*sweep)(const BurnSweep& sweep, void* stream);
  // Adds a hash of each `band_words` of `words` to its place in `hashes` (device memory, zeros).
  int (*hash)(const uint32_t* words, uint64_t band_words, uint32_t bands, uint64_t* hashes,
              void* stream);
};
extern const BurnKernels kBurnKernels;  // of a build with nvcc

}  // namespace collctl::kernels::cuda
