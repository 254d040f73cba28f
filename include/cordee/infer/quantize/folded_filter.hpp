// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The filters of a layer on integers, into which a batch norm may be folded, and the fixed-point
// factors and biases that a convolution makes of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include <cordee/infer/program/integer_layers.hpp>
#include <cordee/infer/quantize/fit_batch_norm.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// m as a fixed-point factor. Beyond 2^31 every sum but 0 is clipped, so its size does not matter.
inline ops::fixed_point factor_of(double m) {
  return ops::fixed_point::from_real(std::min(m, 0x1p31 - 1));
}

/// A filter with folded parameters: unit (sum of q (x - z)) + bias.
struct folded_filter {
  double unit = 1, bias = 0;
  double magnitude = 0;  // sum of |q|

  [[nodiscard]] double bound() const { return std::abs(unit) * 255 * magnitude + std::abs(bias); }
};

/// A negative unit turns the signs of the quantized weights.
template <class Weights>
folded_filter fold_filter(Weights q, double unit, double bias) {
  folded_filter f{std::abs(unit), bias};
  for (auto& w : q) {
    if (unit < 0) w = static_cast<std::remove_reference_t<decltype(w)>>(-w);
    f.magnitude += std::abs(static_cast<double>(w));
  }
  return f;
}
/// The exponent e of the least 2^e that is above |x|; of numbers below 1: 0.
inline int bits_of(double x) {
  int e = 0;
  std::frexp(x, &e);
  return std::max(e, 0);
}
/// The factors and biases of c for outputs in steps of `step`, which are clipped beyond `limit` of
/// them. Biases are in 2^-least_shift of a step, or finer. If a bias does not fit 30 bits of that,
/// and sums can be as large and of the opposite sign (any other is clipped first), c has no such
/// form: returns the filter with the largest bias.
[[nodiscard]] inline std::optional<std::size_t> fit_factors(std::span<const folded_filter> filters,
                                                            double step, double limit,
                                                            int least_shift,
                                                            integer_convolution& c) {
  std::vector<double> bias;
  std::size_t largest = 0;
  for (const folded_filter& f : filters) {
    // Whatever the sum; with what the rounding of factor and bias may amount to.
    const double clipped = limit + 64 + f.unit / step * 255 * f.magnitude * (1 + 0x1p-30);
    bias.push_back(std::clamp(f.bias / step, -clipped, clipped));
    if (std::abs(bias.back()) > std::abs(bias[largest])) largest = bias.size() - 1;
  }
  c.bias_shift = 30 - bits_of(bias[largest]);
  if (c.bias_shift < least_shift) return largest;
  const int coarse = std::max(-c.bias_shift, 0);
  for (std::size_t k = 0; k < filters.size(); ++k) {
    // Every sum but 0 is clipped with a larger factor.
    const double most = limit + std::abs(bias[k]), m = std::min(filters[k].unit / step, most);
    if (m >= 0x1p31 - 1) return largest;
    // Products and biases fit 64 bits: where the bias is large, fewer bits of a small factor do.
    ops::fixed_point factor = factor_of(m);
    if (const int excess = 31 - factor.shift - (61 - std::max(bits_of(bias[k]), coarse));
        excess > 0)
      factor = {static_cast<std::int32_t>(std::llround(std::ldexp(factor.multiplier, -excess))),
                factor.shift + excess};
    c.factors.push_back(factor);
    c.bias_shift = std::min(c.bias_shift, 31 - factor.shift);
  }
  if (c.bias_shift < least_shift) return largest;
  for (const double b : bias)
    c.bias.push_back(static_cast<std::int32_t>(std::llrint(std::ldexp(b, c.bias_shift))));
  return std::nullopt;
}

/// The batch norm of convolution c's sums, of filters with signs, for outputs in steps of `step`,
/// which are clipped beyond `limit` of them. c then outputs its sums in 2^e, in 18 bits, each
/// filter with an e for which what 18 bits clip is clipped by the norm as well. Empty where no
/// integers are exact, or where the norm makes more than `coarsest` steps of 2^e.
inline std::optional<integer_batch_norm> unfold_batch_norm(std::span<const folded_filter> filters,
                                                           double step, double limit,
                                                           double coarsest,
                                                           integer_convolution& c) {
  std::vector<double> k(filters.size()), b(k.size());
  for (std::int32_t most = norm_limit; most > 1; most /= 2) {
    c.factors.clear();
    for (std::size_t i = 0; i < k.size(); ++i) {
      const folded_filter& f = filters[i];
      const double largest = 255 * f.magnitude;  // of the sums
      k[i] = f.unit / step;
      b[i] = f.bias / step;
      if (std::abs(b[i]) >= limit + std::abs(k[i]) * largest) {  // always clipped
        k[i] = 0;
        b[i] = std::copysign(limit, b[i]);
      }
      const double clipped = limit + std::abs(b[i]);  // every sum but 0 is with a larger factor
      k[i] = std::clamp(k[i], -clipped, clipped);
      const double unclipped = std::min(largest, clipped / std::abs(k[i]));
      int e = 0;
      while (std::ldexp(unclipped, -e) > most - 1) ++e;
      while (std::ldexp(std::abs(k[i]) * most, e) > 4 * clipped) --e;
      c.factors.push_back({1 << 30, 1 - e});
      k[i] = std::ldexp(k[i], e);
      if (e > 0 && std::abs(k[i]) > coarsest) return std::nullopt;
    }
    c.low = -most;
    c.high = most - 1;
    if (auto fitted = fit_batch_norm(k, b, {c.low, c.high})) return fitted;
  }
  return std::nullopt;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
