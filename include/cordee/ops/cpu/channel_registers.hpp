// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of an activation that a pass processes together.
//
// A block of V channels is one register, or a pair of them where V is twice as many, as for bf16 on
// processors with tiles of 32 channels. For bf16 in blocks of one register, the pair is two pixels.
//
// A pair of bf16 is loaded and stored as words of 32 bits: its first register has the even
// channels, the lower halves of the words, and its second one the odd channels. That is one load, a
// shift and a mask for two loads and two conversions, and about half of the instructions of a
// store, which otherwise take longer than the memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <cordee/core/min_max.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Numbers of a block of V that one register holds: all that fit, or one where V is not a power of
/// two.
template <class Real, int V>
inline constexpr int register_lanes = (V & (V - 1)) == 0 ? std::min(V, lanes<Real>) : 1;

/// Two registers of W numbers. Arithmetic is element by element.
template <class Real, int W>
struct register_pair {
  vec<Real, W> first, second;

  [[gnu::always_inline]] friend register_pair operator+(const register_pair& a,
                                                        const register_pair& b) {
    return {a.first + b.first, a.second + b.second};
  }
  [[gnu::always_inline]] friend register_pair operator-(const register_pair& a,
                                                        const register_pair& b) {
    return {a.first - b.first, a.second - b.second};
  }
  [[gnu::always_inline]] friend register_pair operator*(const register_pair& a,
                                                        const register_pair& b) {
    return {a.first * b.first, a.second * b.second};
  }
};

/// g where y is positive, 0 elsewhere.
template <class Vector>
[[gnu::always_inline]] inline Vector where_positive(const Vector& y, const Vector& g) {
  const Vector zero{};
  return y > zero ? g : zero;
}
template <class Real, int W>
[[gnu::always_inline]] inline register_pair<Real, W> where_positive(
    const register_pair<Real, W>& y, const register_pair<Real, W>& g) {
  return {where_positive(y.first, g.first), where_positive(y.second, g.second)};
}

/// max(z, 0); NaN stays NaN.
template <class Vector>
[[gnu::always_inline]] inline Vector rectified(const Vector& z) {
  const Vector zero{};
  return z < zero ? zero : z;
}
template <class Real, int W>
[[gnu::always_inline]] inline register_pair<Real, W> rectified(const register_pair<Real, W>& z) {
  return {rectified(z.first), rectified(z.second)};
}

/// The registers of N's channels in blocks of V.
template <class N, int V>
struct channel_registers {
  using real = precision::wide<N>;
  static constexpr int width = register_lanes<real, V>;
  static constexpr bool is_whole = width == lanes<real> && width % 2 == 0;
  /// Whether a pair is the even and the odd channels, not the first and the second half.
  static constexpr bool is_interleaved = is_whole && std::same_as<N, bfloat>;
  static constexpr bool in_pairs = is_whole && (V > width || is_interleaved);
  /// Processed together: so many channels of so many pixels.
  static constexpr int channels = in_pairs && V > width ? 2 * width : width;
  static constexpr int pixels = in_pairs && V == width ? 2 : 1;
  using vector = vec<real, width>;
  using type = std::conditional_t<in_pairs, register_pair<real, width>, vector>;

  [[gnu::always_inline]] static type load(const N* from) {
    if constexpr (is_interleaved)
      return unpacked(*reinterpret_cast<const unaligned_words*>(from));
    else if constexpr (in_pairs)
      return {ops::load<N, width>(from), ops::load<N, width>(from + width)};
    else
      return ops::load<N, width>(from);
  }
  /// Rounds to nearest, ties to even.
  [[gnu::always_inline]] static void store(N* to, const type& x) {
    if constexpr (is_interleaved) {
      *reinterpret_cast<unaligned_words*>(to) = packed(x);
    } else if constexpr (in_pairs) {
      ops::store<N, width>(to, x.first);
      ops::store<N, width>(to + width, x.second);
    } else {
      ops::store<N, width>(to, x);
    }
  }
  /// One coefficient for each channel.
  [[gnu::always_inline]] static type load_row(const real* row) {
    if constexpr (is_interleaved) {
      const vector low = ops::load<real, width>(row),
                   high = ops::load<real, width>(row + channels - width);
      return {every_second<0>(low, high, std::make_integer_sequence<int, width>{}),
              every_second<1>(low, high, std::make_integer_sequence<int, width>{})};
    } else {
      return channel_registers<real, V>::load(row);
    }
  }
  /// The channel of number k of a pixel, counted over the registers.
  static constexpr int channel_of(int k) {
    return is_interleaved ? k % (channels / 2) * 2 + k / (channels / 2) : k;
  }

  /// All pixels of the registers.
  struct all_pixels {
    [[gnu::always_inline]] static type load(const N* from) { return channel_registers::load(from); }
    [[gnu::always_inline]] static void store(N* to, const type& x) {
      channel_registers::store(to, x);
    }
    [[gnu::always_inline]] static type masked(const type& x) { return x; }
  };
  /// The first pixel of two. For the other one `load` and `masked` return zeros.
  struct first_pixel {
    [[gnu::always_inline]] static type load(const N* from) {
      words both{};
      std::memcpy(&both, from, sizeof(N) * V);
      return unpacked(both);
    }
    [[gnu::always_inline]] static void store(N* to, const type& x) {
      const words both = packed(x);
      std::memcpy(static_cast<void*>(to), &both, sizeof(N) * V);
    }
    [[gnu::always_inline]] static type masked(const type& x) {
      words present{};
      for (int k = 0; k < width / 2; ++k) present[k] = ~0u;
      return {register_cast<vector>(register_cast<words>(x.first) & present),
              register_cast<vector>(register_cast<words>(x.second) & present)};
    }
  };
  using origin = std::conditional_t<pixels == 2, first_pixel, all_pixels>;

  /// Calls f(all_pixels{}, p) for every p that begins a register, and f(first_pixel{}, count - 1)
  /// for a pixel that is left.
  template <class F>
  [[gnu::always_inline]] static void for_each_pixel(std::size_t count, const F& f) {
    std::size_t p = 0;
    for (; p + pixels <= count; p += pixels) f(all_pixels{}, p);
    if constexpr (pixels == 2)
      if (p < count) f(first_pixel{}, p);
  }

 private:
  using words = vec<std::uint32_t, width>;
  using unaligned_words = typename vector_type<std::uint32_t, width>::unaligned;

  [[gnu::always_inline]] static type unpacked(words both) {
    return {register_cast<vector>(both << 16), register_cast<vector>(both & 0xffff0000u)};
  }
  [[gnu::always_inline]] static words packed(const type& x) {
    return lane_conversion<bfloat, width>::pairs(x.first, x.second);
  }
  template <int First, int... K>
  [[gnu::always_inline]] static vector every_second(const vector& low, const vector& high,
                                                    std::integer_sequence<int, K...>) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector) && !defined(__CUDACC__)
    return __builtin_shufflevector(low, high, (2 * K + First)...);
#else
    return vector{
        (2 * K < width ? low[(2 * K + First) % width] : high[(2 * K + First) % width])...};
#endif
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
