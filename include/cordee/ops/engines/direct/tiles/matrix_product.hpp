// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Arm's products of small matrices: two pixels by two filters, four channels of bf16 (bfmmla) or
// eight of bytes (usmmla) each. For every 128 bits of a register,
//
//   sum[p, f] += sum over c of  x[p, c] w[f, c]     p, f < 2
//
// so an instruction has twice the products of a dot product, and a loaded pixel is multiplied by
// two filters of each part. A register holds V/4 parts, hence pairs of filters: those of V filters
// are two registers, in order. x has the same two pixels in each part. At the end the two pixels of
// both registers are separated. bfmmla's sums are those of bfdot over channels 0, 1, then over 2, 3
// (bfloat_dot.hpp). Without the instructions the functions here are what they compute, of bf16 but
// for the order of sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/direct/tiles/bfloat_dot.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Whether this build's ISA has the products of bf16, and of bytes, for its registers.
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && \
    (CORDEE_ABI_SVE_BITS == 0 || defined(__ARM_FEATURE_SVE_BF16))
inline constexpr bool bfloat_matrices = true;
#else
inline constexpr bool bfloat_matrices = false;
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8) && \
    (CORDEE_ABI_SVE_BITS == 0 || defined(__ARM_FEATURE_SVE_MATMUL_INT8))
inline constexpr bool byte_matrices = true;
#else
inline constexpr bool byte_matrices = false;
#endif

/// Channels of bf16 whose products are added at once.
template <int V, bool Dots>
inline constexpr int bfloat_group = Dots && bfloat_matrices && V == lanes<float> ? 4 : 2;

/// Channels of a pixel or a filter: 64 bits.
using channel_group = std::uint64_t;
template <int V>
using channel_groups = vec<channel_group, V / 2>;

/// The same of both pixels in each part of a register.
template <int V>
[[gnu::always_inline]] inline channel_groups<V> pixel_pair(const void* first, const void* second) {
  channel_group a, b;
  std::memcpy(&a, first, sizeof a);
  std::memcpy(&b, second, sizeof b);
  channel_groups<V> pair{};
#if CORDEE_ABI_SVE_BITS > 0
  if constexpr (V == lanes<float>) {
    const channel_groups<V> every_a = pair + a, every_b = pair + b;
    __asm__("trn1 %0.d, %1.d, %2.d" : "=w"(pair) : "w"(every_a), "w"(every_b));
    return pair;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < V / 2; i += 2) {
    pair[i] = a;
    pair[i + 1] = b;
  }
  return pair;
}
/// As above, of adjacent groups.
template <int V>
[[gnu::always_inline]] inline channel_groups<V> adjacent_pixels(const void* from) {
  if constexpr (V == 4) {
    channel_groups<V> pair;
    std::memcpy(&pair, from, sizeof pair);
    return pair;
  } else {
    return pixel_pair<V>(from, static_cast<const char*>(from) + sizeof(channel_group));
  }
}

/// Both registers' sums of a pair of pixels, as they are summed, to the V sums of either pixel.
template <class T, int V>
[[gnu::always_inline]] inline void separate_pixels(vec<T, V>& first, vec<T, V>& second) {
  const auto a = first, b = second;
#if defined(__aarch64__)
  if constexpr (V == lanes<float> && V == 4) {
    __asm__("uzp1 %0.2d, %1.2d, %2.2d" : "=w"(first) : "w"(a), "w"(b));
    __asm__("uzp2 %0.2d, %1.2d, %2.2d" : "=w"(second) : "w"(a), "w"(b));
    return;
  } else if constexpr (V == lanes<float>) {
    __asm__("uzp1 %0.d, %1.d, %2.d" : "=w"(first) : "w"(a), "w"(b));
    __asm__("uzp2 %0.d, %1.d, %2.d" : "=w"(second) : "w"(a), "w"(b));
    return;
  }
#endif
  for (int i = 0; i < V / 2; ++i) {
    const int from = i / 2 * 4 + i % 2;  // two filters of the first pixel, and of the second
    first[i] = a[from];
    first[V / 2 + i] = b[from];
    second[i] = a[from + 2];
    second[V / 2 + i] = b[from + 2];
  }
}
/// The inverse: what the sums of two pixels are summed from on, where both begin with `initial`.
template <class T, int V>
[[gnu::always_inline]] inline void join_pixels(const vec<T, V>& initial, vec<T, V>& first,
                                               vec<T, V>& second) {
#if defined(__aarch64__)
  if constexpr (V == lanes<float> && V == 4) {
    __asm__("zip1 %0.2d, %1.2d, %1.2d" : "=w"(first) : "w"(initial));
    __asm__("zip2 %0.2d, %1.2d, %1.2d" : "=w"(second) : "w"(initial));
    return;
  } else if constexpr (V == lanes<float>) {
    __asm__("zip1 %0.d, %1.d, %1.d" : "=w"(first) : "w"(initial));
    __asm__("zip2 %0.d, %1.d, %1.d" : "=w"(second) : "w"(initial));
    return;
  }
#endif
  for (int i = 0; i < V; ++i) {
    const int from = i / 4 * 2 + i % 2;
    first[i] = initial[from];
    second[i] = initial[V / 2 + from];
  }
}

/// sum += the products of bf16.
template <int V, bool Native>
struct bfloat_matrix_product {
  static vec<float, V> add(vec<float, V> sum, channel_groups<V> x, channel_groups<V> w) {
    for (int i = 0; i < V; ++i)
      for (int c = 0; c < 64; c += 16)
        sum[i] += number(x[i / 4 * 2 + i / 2 % 2] >> c) * number(w[i / 4 * 2 + i % 2] >> c);
    return sum;
  }

 private:
  static float number(channel_group low_bits) {
    return bfloat{static_cast<std::uint16_t>(low_bits)}.exact();
  }
};
/// sum += the products of unsigned bytes of x and signed ones of w.
template <int V, bool Native>
struct byte_matrix_product {
  static vec<std::int32_t, V> add(vec<std::int32_t, V> sum, channel_groups<V> x,
                                  channel_groups<V> w) {
    for (int i = 0; i < V; ++i)
      for (int c = 0; c < 64; c += 8)
        sum[i] += static_cast<std::uint8_t>(x[i / 4 * 2 + i / 2 % 2] >> c) *
                  static_cast<std::int8_t>(w[i / 4 * 2 + i % 2] >> c);
    return sum;
  }
};
// As assembly, since compilers have no such product of SVE's registers of a given width.
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <>
struct bfloat_matrix_product<lanes<float>, true> {
  static constexpr int V = lanes<float>;
  [[gnu::always_inline]] static vec<float, V> add(vec<float, V> sum, channel_groups<V> x,
                                                  channel_groups<V> w) {
    if constexpr (V == 4)
      __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(x), "w"(w));
    else
      __asm__("bfmmla %0.s, %1.h, %2.h" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
  }
};
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
template <>
struct byte_matrix_product<lanes<float>, true> {
  static constexpr int V = lanes<float>;
  [[gnu::always_inline]] static vec<std::int32_t, V> add(vec<std::int32_t, V> sum,
                                                         channel_groups<V> x, channel_groups<V> w) {
    if constexpr (V == 4)
      __asm__("usmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(w));
    else
      __asm__("usmmla %0.s, %1.b, %2.b" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
  }
};
#endif

}  // namespace cordee::inline CORDEE_ABI::detail::ops
