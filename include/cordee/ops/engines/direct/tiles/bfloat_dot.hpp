// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Products of pairs of bf16 (AVX512-BF16, Arm's BF16): one instruction adds two to each of V sums
// in fp32,
//
//   sum[v] += x[0] w[v, 0] + x[1] w[v, 1]     the same x for all v
//
// It treats subnormal operands and results as zero. AVX512-BF16 adds x[1] w[v, 1] first, then
// x[0] w[v, 0], each time rounded to nearest. Arm's adds the products, then their sum, each time
// rounded to odd: inexact sums are truncated, and their last bit is set. What a pair is differs:
// two channels in fprop and dgrad, two samples in wgrad.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <cordee/ops/cpu/simd.hpp>
#include <cordee/precision/bf16.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether this build's ISA has an instruction that adds two products of bf16 to 32 bits, and it is
/// not slower than one that adds a product of fp32, as Intel's is (ops/engines/default.hpp).
inline constexpr bool bfloat_dots = CORDEE_ABI_BFLOAT_DOTS != 0;

/// Two numbers of bf16, the first in the low half.
using bfloat_pair = std::uint32_t;
template <int V>
using bfloat_pairs = vec<bfloat_pair, V>;

/// sum[v] + both products of x's and w[v]'s halves.
template <int V, bool Dots>
struct bfloat_dot {
  [[gnu::always_inline]] static vec<float, V> add(vec<float, V> sum, bfloat_pair x,
                                                  bfloat_pairs<V> w) {
    const bfloat_pairs<V> pixel = bfloat_pairs<V>{} + x;
    sum += register_cast<vec<float, V>>(pixel & 0xffff0000u) *
           register_cast<vec<float, V>>(w & 0xffff0000u);
    return sum + register_cast<vec<float, V>>(pixel << 16) * register_cast<vec<float, V>>(w << 16);
  }
};
#if defined(__AVX512BF16__)
// As assembly, since compilers have different types for registers of bf16.
template <>
struct bfloat_dot<16, true> {
  [[gnu::always_inline]] static vec<float, 16> add(vec<float, 16> sum, bfloat_pair x,
                                                   bfloat_pairs<16> w) {
    const bfloat_pairs<16> pixel = bfloat_pairs<16>{} + x;
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(pixel));
    return sum;
  }
};
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <>
struct bfloat_dot<lanes<float>, true> {
  static constexpr int V = lanes<float>;
  [[gnu::always_inline]] static vec<float, V> add(vec<float, V> sum, bfloat_pair x,
                                                  bfloat_pairs<V> w) {
    const bfloat_pairs<V> pixel = bfloat_pairs<V>{} + x;
    if constexpr (V == 4)
      __asm__("bfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(w), "w"(pixel));
    else
      __asm__("bfdot %0.s, %1.h, %2.h" : "+w"(sum) : "w"(w), "w"(pixel));
    return sum;
  }
};
#endif

/// The type of sums of products of X: X itself, or float where X is a pair.
template <class X>
using sum_of = std::conditional_t<std::same_as<X, bfloat_pair>, float, X>;

/// sum += x w, or both products of pairs.
template <class X, int V>
[[gnu::always_inline]] inline void add_product(vec<sum_of<X>, V>& sum, X x, const vec<X, V>& w) {
  if constexpr (std::same_as<X, bfloat_pair>)
    sum = bfloat_dot<V, true>::add(sum, x, w);
  else
    sum += x * w;
}

/// Rounds V sums to bf16, to nearest, ties to even; the instruction treats subnormal sums as zero.
template <int V, bool Dots>
[[gnu::always_inline]] inline void store_bfloat_sums(bfloat* to, vec<float, V> sum) {
#if defined(__AVX512BF16__)
  if constexpr (V == 16 && Dots) {
    vec<std::uint16_t, 16> rounded;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(sum));
    store<std::uint16_t, 16>(&to->bits, rounded);
    return;
  }
#endif
  store<bfloat, V>(to, sum);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
