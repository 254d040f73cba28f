// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// R(x, f) = floor(x f + 1/2) of ops/requantize.hpp for V lanes at once, each with its own factor:
// products of 64 bits in two halves, of the even and of the odd lanes.
#pragma once

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

/// The factors of V lanes. Requires that every result fits 32 bits, and that no factor is 2^30 or
/// more.
template <int V>
class rescaling {
 public:
  explicit rescaling(std::span<const fixed_point> factors) {  // (at most V); further lanes are zero
    for (std::size_t v = 0; v < factors.size(); ++v) {
      multiplier_[v] = factors[v].multiplier;
      const std::int64_t total = 31 - factors[v].shift;
      auto& lane_half = v % 2 == 0 ? even_ : odd_;
      lane_half.shift[v / 2] = total;
      lane_half.rounding[v / 2] = std::int64_t{1} << (total - 1);
    }
  }
  [[gnu::always_inline]] lanes32<V> operator()(lanes32<V> x) const {
    const lanes64<V> even = (even_products<V>(x, multiplier_) + even_.rounding) >> even_.shift;
    const lanes64<V> odd =
        (even_products<V>(upper(x), upper(multiplier_)) + odd_.rounding) >> odd_.shift;
    return ops::register_cast<lanes32<V>>((even & 0xffffffff) | odd << 32);
  }

 private:
  [[gnu::always_inline]] static lanes32<V> upper(lanes32<V> x) {
    return ops::register_cast<lanes32<V>>(ops::register_cast<lanes64<V>>(x) >> 32);
  }
  struct half {
    lanes64<V> rounding{}, shift{};
  };
  lanes32<V> multiplier_{};
  half even_, odd_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
