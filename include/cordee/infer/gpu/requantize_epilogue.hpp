// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Epilogue of a convolution of bytes on tensor cores: the output that
// infer/program/integer_layers.hpp defines, from the sums of w q over the taps, in integers of 64
// bits.
//
//   y = clip(((sum + initial) multiplier + addend >> shift) + R(residual, f') + offset, low, high)
//
// initial = -z sum of w is the zero point's share of the sum; the addend holds the bias and the
// half of rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// What becomes of a filter's sums. Loaded by two accesses.
struct alignas(16) filter_rescaling {
  std::int64_t addend = 0;
  std::int32_t multiplier = 0, initial = 0;
  int shift = 0;

  [[nodiscard]] CORDEE_HOST_DEVICE constexpr std::int64_t operator()(std::int32_t sum) const {
    return (std::int64_t{sum + initial} * multiplier + addend) >> shift;
  }
};

/// Rescalings of a layer's filters, followed by zeros up to `padded`.
inline std::vector<filter_rescaling> rescalings_of(const integer_convolution& c,
                                                   std::size_t padded) {
  std::vector<filter_rescaling> all(padded);
  const std::size_t filters = c.bias.size(), filter_size = c.weights.size() / filters;
  for (std::size_t k = 0; k < filters; ++k) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < filter_size; ++i) sum += c.weights[k * filter_size + i];
    const int shift = 31 - c.factors[k].shift;
    const std::int64_t half = shift == 0 ? 0 : std::int64_t{1} << (shift - 1);
    all[k] = {c.addend<std::int64_t>(k) + half, c.factors[k].multiplier, -c.zero_point * sum,
              shift};
  }
  return all;
}

/// What a layer adds, and the limits of its output.
struct output_form {
  const std::int32_t* residual;  // as the output lies, or null
  ops::fixed_point residual_factor;
  std::int32_t offset, low, high;

  template <class Layer>
  static output_form of(const Layer& layer, const std::int32_t* added) {
    return {added, layer.residual_factor, layer.offset, layer.low, layer.high};
  }
  /// Four outputs at `at`, which is a multiple of four, of the numbers before the residual.
  template <Activation Out>
  CORDEE_DEVICE void store(const std::int64_t (&v)[4], std::size_t at, Out* y) const {
    std::int32_t added[4] = {};
    if (residual != nullptr) ops::load_unit(residual + at, added);
    Out out[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t sum =
          v[i] + ops::rescaled(std::int64_t{added[i]}, residual_factor) + offset;
      out[i] = static_cast<Out>(sum < low ? low : sum > high ? high : sum);
    }
    ops::store_unit(out, y + at);
  }
};

template <Activation Out>
struct requantize_epilogue {
  static constexpr bool integers_only = true;
  static constexpr int width = 4;
  const filter_rescaling* filters;  // (K')
  output_form form;
  Out* y;

  struct vector_constants {
    filter_rescaling of[4];
  };
  /// Constants of the filters from `filter` on: a thread has the same ones in all of its rows.
  [[nodiscard]] CORDEE_DEVICE vector_constants constants_of(int filter) const {
    vector_constants constants;
    for (int i = 0; i < 4; ++i) constants.of[i] = filters[filter + i];
    return constants;
  }
  CORDEE_DEVICE void store(std::size_t offset, const vector_constants& constants,
                           const std::int32_t* sums) const {
    std::int64_t v[4];
    for (int i = 0; i < 4; ++i) v[i] = constants.of[i](sums[i]);
    form.store(v, offset, y);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
