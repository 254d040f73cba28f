// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// R(x, f) = floor(x f + 1/2) of ops/requantize.hpp for V lanes at once: each with its own factor
// and addend, by products of 64 bits in two halves, of the even and of the odd lanes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/requantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
using lanes32 = ops::vec<std::int32_t, V>;
template <int V>
using lanes64 = ops::vec<std::int64_t, V / 2>;

/// The 64-bit products of the even lanes.
template <int V>
[[gnu::always_inline]] inline lanes64<V> even_products(lanes32<V> a, lanes32<V> b) {
#if defined(__AVX2__)
  lanes64<V> y;
  __asm__("vpmuldq %2, %1, %0" : "=v"(y) : "v"(a), "v"(b));
  return y;
#else
  const auto low = [](lanes32<V> x) { return ops::register_cast<lanes64<V>>(x) << 32 >> 32; };
  return low(a) * low(b);
#endif
}

/// The odd lanes in the places of the even ones.
template <int V>
[[gnu::always_inline]] inline lanes32<V> odd_lanes(lanes32<V> x) {
  return ops::register_cast<lanes32<V>>(ops::register_cast<lanes64<V>>(x) >> 32);
}

/// The factors of V lanes. Requires that every result fits 32 bits, and that no factor is 2^30 or
/// more.
template <int V>
class rescaling {
 public:
  /// (at most V) each; further lanes, and addends that are not given, are zero.
  explicit rescaling(std::span<const ops::fixed_point> factors,
                     std::span<const std::int64_t> addends = {}) {
    for (std::size_t v = 0; v < factors.size(); ++v) {
      multiplier_[v] = factors[v].multiplier;
      const std::int64_t total = 31 - factors[v].shift;
      auto& lane_half = v % 2 == 0 ? even_ : odd_;
      lane_half.shift[v / 2] = total;
      lane_half.rounding[v / 2] =
          (std::int64_t{1} << (total - 1)) + (addends.empty() ? 0 : addends[v]);
    }
  }
  [[gnu::always_inline]] lanes32<V> operator()(lanes32<V> x) const {
    const lanes64<V> even = (even_products<V>(x, multiplier_) + even_.rounding) >> even_.shift;
    const lanes64<V> odd =
        (even_products<V>(odd_lanes<V>(x), odd_lanes<V>(multiplier_)) + odd_.rounding) >>
        odd_.shift;
    return ops::register_cast<lanes32<V>>((even & 0xffffffff) | odd << 32);
  }

 private:
  struct half {
    half() : rounding{}, shift{} {}  // of initial values nvcc 13.0 makes a constant, and fails
    lanes64<V> rounding, shift;
  };
  lanes32<V> multiplier_{};
  half even_, odd_;
};

/// One factor for numbers of 32 bits, of magnitudes up to 2^23 where it is a power of two below 1,
/// which shifts.
template <int V>
class wide_rescaling {
 public:
  explicit wide_rescaling(ops::fixed_point f) : lanes_(repeated(f)) {
    const int shift = 1 - f.shift;
    is_shift_ = f.multiplier == 1 << 30 && shift > 0 && shift < 30;
    if (!is_shift_) return;
    const std::int32_t half = 1 << (shift - 1);
    rounding_ += half;
    shift_ += shift;
  }
  [[gnu::always_inline]] lanes32<V> operator()(const std::int32_t* from) const {
    const auto x = ops::load<std::int32_t, V>(from);
    if (is_shift_) return (x + rounding_) >> shift_;
    return lanes_(x);
  }

 private:
  bool is_shift_ = false;
  lanes32<V> rounding_{}, shift_{};
  static std::array<ops::fixed_point, std::size_t{V}> repeated(ops::fixed_point f) {
    std::array<ops::fixed_point, std::size_t{V}> all;
    all.fill(f);
    return all;
  }
  rescaling<V> lanes_;
};

/// Stores numbers within low .. high.
template <int V, class Out>
[[gnu::always_inline]] inline void store_clipped(Out* y, lanes32<V> v, lanes32<V> low,
                                                 lanes32<V> high) {
  v = v < low ? low : v;
  v = v > high ? high : v;
  ops::store<Out, V>(y, __builtin_convertvector(v, ops::vec<Out, V>));
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
