// How types stand in memory, for the data check only: bits <-> double with rounding to
// nearest even. Written apart from the kernels on purpose: the check must not inherit their
// mistakes. Slow (one element at a time); used for tables of one period. Pure functions.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::cmd {

struct FloatForm {  // of a floating point type
  int exponent_bits, mantissa_bits, bias;
  double max_finite;
  bool saturates;  // fp8: too large becomes the largest finite value, not infinity
  // The least power of two in sums' inputs: an average over many ranks stays above the smallest
  // number.
  int sum_exponent;
};
bool is_float(kernels::DataType type);
const FloatForm& float_form(kernels::DataType type);  // type must be a float

uint64_t encode_float(kernels::DataType type, double value);
double decode_float(kernels::DataType type, uint64_t bits);

// An integer of the type's width held in 64 bits: cut off, then extended by its sign.
uint64_t wrap_integer(kernels::DataType type, uint64_t value);

// Maps bits to integers so that a < b as numbers exactly when key(a) < key(b). No NaN, no zeros of
// both signs.
int64_t order_key(kernels::DataType type, uint64_t bits);

}  // namespace collctl::cmd
