// Where the numbers of the burn-in's matrices lie. Units of tensor cores as the PTX ISA has them.
#include <bit>
#include <cmath>

#include "kernels/cuda/burn.h"

namespace collctl::kernels::cuda {
namespace {

// A unit's line (a row of A, a column of B) of 8, `half` which 8 of them, and the depth in it.
BurnPlace in_unit(const BurnUnit& unit, uint32_t line, uint32_t half, uint32_t halves,
                  uint32_t depth, uint32_t words_of_lane) {
  if (unit.word_values == 0)  // a double of each lane and half
    return {(line * 4 + depth) * words_of_lane + half * 2};
  const uint32_t quarter = 4 * unit.word_values;
  const uint32_t lane = line * 4 + depth % quarter / unit.word_values;
  return {lane * words_of_lane + half + depth / quarter * halves, depth % unit.word_values};
}

}  // namespace

BurnPlace burn_a(BurnType type, const BurnShape& shape, uint32_t row, uint32_t depth) {
  const BurnUnit unit = burn_unit(type);
  const uint64_t first = (uint64_t(row / 16) * shape.steps + depth / unit.depth) * unit.a_words;
  if (type == BurnType::fp32) return {first + row % 16};
  BurnPlace place = in_unit(unit, row % 8, row % 16 / 8, 2, depth % unit.depth, 4);
  place.word += first;
  return place;
}

BurnPlace burn_b(BurnType type, const BurnShape& shape, uint32_t column, uint32_t depth) {
  const BurnUnit unit = burn_unit(type);
  const uint64_t first =
      (uint64_t(column / unit.columns) * shape.steps + depth / unit.depth) * unit.b_words;
  if (type == BurnType::fp32) return {first + column % 16};
  BurnPlace place = in_unit(unit, column % 8, 0, 1, depth % unit.depth, 2);
  place.word += first;
  return place;
}

uint64_t burn_c(BurnType type, const BurnShape& shape, uint32_t row, uint32_t column) {
  const BurnUnit unit = burn_unit(type);
  const uint64_t first =
      (uint64_t(row / 16) * (shape.columns / unit.columns) + column / unit.columns) * 32 *
      unit.sum_words;
  const uint32_t r = row % 16, c = column % unit.columns;
  if (type == BurnType::fp32)
    return first + (r / 4 * 8 + c / 2) * unit.sum_words + r % 4 * 2 + c % 2;
  const uint32_t lane = r % 8 * 4 + c / 2, sum = r / 8 * 2 + c % 2;
  return first + lane * unit.sum_words + sum * (unit.sum_words / 4);
}

BurnElement burn_element(BurnType type, const BurnShape& shape, uint64_t word) {
  const BurnUnit unit = burn_unit(type);
  const uint64_t in = word / (32 * unit.sum_words);
  const auto lane = uint32_t(word / unit.sum_words % 32);
  const uint32_t across = shape.columns / unit.columns;
  const auto row = uint32_t(in / across) * 16, column = uint32_t(in % across) * unit.columns;
  const auto sum = uint32_t(word % unit.sum_words);
  if (type == BurnType::fp32)
    return {row + lane / 8 * 4 + sum / 2, column + lane % 8 * 2 + sum % 2};
  const uint32_t number = sum / (unit.sum_words / 4);
  return {row + lane / 4 + number / 2 * 8, column + lane % 4 * 2 + number % 2};
}

double burn_value(BurnType type, uint64_t seed, const BurnPlace& place) {
  const uint32_t word = burn_input(type, seed, place.word);
  switch (type) {
    case BurnType::bf16:
      return double(std::bit_cast<float>(word >> (16 * place.part) << 16));
    case BurnType::fp8: {
      const uint32_t bits = word >> (8 * place.part);  // an exponent of 0
      return ((bits & 0x80) != 0 ? -1.0 : 1.0) * (1 + double(bits & 7) / 8);
    }
    case BurnType::fp32:
      return double(std::bit_cast<float>(word));
    default:
      return std::bit_cast<double>(uint64_t(burn_input(type, seed, place.word + 1)) << 32 | word);
  }
}

}  // namespace collctl::kernels::cuda
