// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layers of a network that runs on integers alone, and their definitions.
//
//   convolution   sum = sum over taps of w (q - z),   q = x, or clip(R(x, f) + z, 0, 255)
//                 y = clip(floor(sum factor + bias 2^-s + 1/2) + R(residual, f') + offset,
//                          low, high)
//   batch norm    y = clip(((K x + B) >> L) + R(residual, f') + offset, low, high)    (>> floors)
//   max pool      y = max over the window of x
//   mean          y = floor((sum over pixels of x + P / 2) / P)
//   classifier    logit = R((bias + sum of w x) >> h, factor)            (>> rounds halves up)
//
// R(x, f) = floor(x f + 1/2) for a fixed-point factor f: single rounding (ops/requantize.hpp).
// Activations between two convolutions are bytes of the second one's quantizer, with zero point z.
// Where a residual block begins they have 32 bits and no zero point, in 2^-14 of the step of those
// bytes: the shortcut is added without the rounding and the clipping to bytes, as in training.
// (With 16 bits, in 2^-6 of a step, one byte in 300 of what is read differs from training's, and
// then one in 100 of what the next convolution makes of them.) The classifier's weights have 15
// bits, since training simulates a classifier of floats.
//
// A batch norm is part of the convolution before it, or a layer that reads 18 bits of the
// convolution's sums: then each channel's (K, B) and the L of all give floor(k x + b + 1/2), with
// the real k and b of the channel, for every x (infer/quantize/fit_batch_norm.hpp). (With 16 bits
// of the sums one prediction in 800 differs from training's, with 18 one in 1,700, as one in 2,700
// without the layer.)
//
// These definitions are templates over the integer that they compute in, so that a test can put in
// a type that refuses floating-point numbers.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <cordee/core/config.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/pooling.hpp>
#include <cordee/ops/quantize.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Activations: bytes with a zero point; 32 bits at a residual block, before a batch norm and
/// before the mean.
template <class T>
concept Activation = std::same_as<T, std::uint8_t> || std::same_as<T, std::int32_t>;

/// Steps of 32-bit activations in one step of the bytes that a convolution makes of them.
inline constexpr int residual_steps = 1 << 14;

/// Sums of at most so many products of bytes, and the zero point's share of them, fit 32 bits.
inline constexpr std::int64_t most_terms = 33000;
inline constexpr std::int32_t largest_bias = std::int32_t{1} << 30;
/// Shift of a bias: with residual_steps steps in a byte's, it is off by at most 2^-9 of that step.
inline constexpr int least_bias_shift = -6;
/// Largest bias as a part of the products with factors.
inline constexpr std::int64_t largest_addend = std::int64_t{1} << 61;

struct integer_convolution {
  convolution_problem problem;
  int zero_point = 0;                     // of the input's bytes
  ops::fixed_point input_factor;          // of an input of 32 bits
  int weight_bits = 8;                    // 8, 4 or 2
  std::vector<std::int8_t> weights;       // (K, C, R, S), of that many bits
  std::vector<std::int32_t> bias;         // (K), in 2^-s of a step of the output
  int bias_shift = 0;                     // s, from -6 to 31 - shift of each factor
  std::vector<ops::fixed_point> factors;  // (K)
  ops::fixed_point residual_factor;
  int offset = 0;  // the output's zero point
  std::int32_t low = 0, high = 255;

  /// The byte of an activation.
  template <class Int, Activation In>
  [[nodiscard]] constexpr Int byte_of(In x) const {
    if constexpr (std::same_as<In, std::uint8_t>)
      return Int{x};
    else
      return clamped(ops::rescaled(Int{x}, input_factor) + Int{zero_point}, 0, 255);
  }
  /// The activation of filter k whose sum is `sum`.
  template <class Int>
  [[nodiscard]] constexpr Int output(std::size_t k, Int sum, Int residual) const {
    return clamped(ops::rescaled(sum, factors[k], addend<Int>(k)) + residual + Int{offset}, low,
                   high);
  }
  /// The bias of filter k as a part of its product with the factor.
  template <class Int>
  [[nodiscard]] constexpr Int addend(std::size_t k) const {
    return Int{bias[k]} << (31 - factors[k].shift - bias_shift);
  }
  template <class Int>
  static constexpr Int clamped(Int x, std::int32_t least, std::int32_t most) {
    return x < Int{least} ? Int{least} : Int{most} < x ? Int{most} : x;
  }
};

/// Limits the magnitudes of a batch norm's input.
inline constexpr std::int32_t norm_limit = std::int32_t{1} << 17;

struct integer_batch_norm {
  extent in;
  std::vector<std::int64_t> multiplier, addend;  // (C): K, B
  int shift = 0;                                 // L
  ops::fixed_point residual_factor;
  int offset = 0;  // the output's zero point
  std::int32_t low = 0, high = 255;

  /// The activation of channel c. Requires |x| <= norm_limit.
  template <class Int>
  [[nodiscard]] constexpr Int output(std::size_t c, Int x, Int residual) const {
    return integer_convolution::clamped(
        ((Int{multiplier[c]} * x + Int{addend[c]}) >> shift) + residual + Int{offset}, low, high);
  }
};
/// Limits the magnitudes of K x + B.
inline constexpr std::int64_t largest_norm_sum = std::int64_t{1} << 62;

/// The mean over pixels.
struct mean_problem {
  extent in;
};

struct integer_classifier {
  std::size_t features = 0, classes = 0;
  std::vector<std::int16_t> weights;      // (classes, features), of magnitudes up to largest_weight
  std::vector<std::int64_t> bias;         // (classes)
  int shift = 0;                          // h
  std::vector<ops::fixed_point> factors;  // (classes)
};

/// Largest weight of a classifier: 15 bits.
inline constexpr std::int16_t largest_weight = (1 << 14) - 1;

/// Magnitudes of activations of 32 bits are below this, so that the classifier's sums fit 64 bits.
inline constexpr std::int32_t wide_limit = std::int32_t{1} << 23;

/// The definitions, sample by sample; activations are (channels, height, width).
template <class Int = std::int64_t>
struct integer_reference {
  template <Activation In, Activation Out>
  static void convolution(const integer_convolution& c, const In* x,
                          const std::int32_t* residual,  // or null
                          Out* y) {
    const convolution_problem& p = c.problem;
    const extent out = p.out();
    for (int k = 0; k < out.channels; ++k)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j, ++y) {
          Int sum{0};
          for (int ch = 0; ch < p.in.channels; ++ch)
            for (int r = 0; r < p.window; ++r)
              for (int s = 0; s < p.window; ++s) {
                const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
                if (h < 0 || h >= p.in.height || l < 0 || l >= p.in.width) continue;
                const std::int8_t w = c.weights[static_cast<std::size_t>(
                    ((k * p.in.channels + ch) * p.window + r) * p.window + s)];
                const In q = x[(std::ptrdiff_t{ch} * p.in.height + h) * p.in.width + l];
                sum = sum + Int{w} * (c.template byte_of<Int>(q) - Int{c.zero_point});
              }
          const Int added =
              residual == nullptr ? Int{0} : ops::rescaled(Int{*residual++}, c.residual_factor);
          *y = static_cast<Out>(c.output(static_cast<std::size_t>(k), sum, added));
        }
  }

  template <Activation Out>
  static void batch_norm(const integer_batch_norm& n, const std::int32_t* x,
                         const std::int32_t* residual,  // or null
                         Out* y) {
    for (std::size_t i = 0; i < n.in.size(); ++i) {
      const Int added =
          residual == nullptr ? Int{0} : ops::rescaled(Int{residual[i]}, n.residual_factor);
      y[i] = static_cast<Out>(n.output(i / n.in.pixels(), Int{x[i]}, added));
    }
  }

  template <Activation A>
  static void max_pool(const ops::max_pool_problem& p, const A* x, A* y) {
    const extent out = p.out();
    for (int c = 0; c < out.channels; ++c)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j) {
          const auto [r0, r1] = p.taps(i, p.in.height);
          const auto [s0, s1] = p.taps(j, p.in.width);
          A largest = std::numeric_limits<A>::min();
          for (int r = r0; r < r1; ++r)
            for (int s = s0; s < s1; ++s)
              largest = std::max(
                  largest,
                  x[(std::ptrdiff_t{c} * p.in.height + i * p.stride - p.padding + r) * p.in.width +
                    j * p.stride - p.padding + s]);
          *y++ = largest;
        }
  }

  /// Option A of a shortcut. Zero is the integer 0.
  template <Activation A>
  static void subsample(const ops::subsample_problem& p, const A* x, A* y) {
    for (int k = 0; k < p.out.channels; ++k)
      for (int i = 0; i < p.out.height; ++i)
        for (int j = 0; j < p.out.width; ++j) {
          const int c = p.source(k);
          const bool present = c >= 0 && c < p.in.channels;
          *y++ =
              present
                  ? x[(std::ptrdiff_t{c} * p.in.height + i * p.stride) * p.in.width + j * p.stride]
                  : A{0};
        }
  }

  static void mean(const extent& in, const std::int32_t* x, std::int32_t* y) {
    const Int pixels{static_cast<std::int64_t>(in.pixels())};
    for (int c = 0; c < in.channels; ++c) {
      Int sum = pixels >> 1;
      for (std::size_t p = 0; p < in.pixels(); ++p) sum = sum + Int{*x++};
      const Int quotient = sum / pixels;  // towards zero
      *y++ = static_cast<std::int32_t>(sum < quotient * pixels ? quotient - Int{1} : quotient);
    }
  }

  static void classifier(const integer_classifier& c, const std::int32_t* x, std::int32_t* logits) {
    for (std::size_t k = 0; k < c.classes; ++k) {
      Int sum{c.bias[k]};
      for (std::size_t f = 0; f < c.features; ++f)
        sum = sum + Int{c.weights[k * c.features + f]} * Int{x[f]};
      if (c.shift > 0) sum = (sum + (Int{1} << (c.shift - 1))) >> c.shift;
      logits[k] = static_cast<std::int32_t>(ops::rescaled(sum, c.factors[k]));
    }
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
