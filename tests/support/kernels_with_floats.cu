// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels that tests/scripts/floats_in_kernels.py finds, but for the last one.
// Integers only
#include <cuda_fp16.h>

#include "tests/support/kernel_list.cuh"

namespace {
struct float_product {
  float *x, factor;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] *= factor; }
};
struct half_sum {
  __half2* x;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] = __hadd2(x[i], x[i + 1]); }
};
struct conversion {
  const int* x;
  float* y;
  CORDEE_DEVICE void operator()(std::size_t i) const { y[i] = static_cast<float>(x[i]); }
};
struct integer_division {
  int *x, divisor;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] /= divisor; }
};
struct wide_remainder {
  std::int64_t *x, divisor;
  CORDEE_DEVICE void operator()(std::size_t i) const { x[i] %= divisor; }
};
struct integer_mean {
  int* x;
  const float* from;
  float* to;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    x[i] = (x[i] + 3) / 7;
    to[i] = from[i];  // a move
  }
};
}  // namespace

OPERATION(planted_float_product, float_product)
OPERATION(planted_half_sum, half_sum)
OPERATION(planted_conversion, conversion)
OPERATION(planted_integer_division, integer_division)
OPERATION(planted_wide_remainder, wide_remainder)
OPERATION(integers_and_moves, integer_mean)
