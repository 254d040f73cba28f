// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// R(x, f) = floor(x f + 1/2) of ops/requantize.hpp for V lanes at once: each with its own factor
// and addend, by products of 64 bits in two halves, of the even and of the odd lanes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
  __asm__("vpmuldq %2, %1, %0" : "=v"(y) : "v"(a), "vm"(b));
  return y;
#else
  const auto low = [](lanes32<V> x) { return ops::register_cast<lanes64<V>>(x) << 32 >> 32; };
  return low(a) * low(b);
#endif
}

/// The odd lanes in the places of the even ones, and zeros. AVX2 has no such shift with signs.
template <int V>
[[gnu::always_inline]] inline lanes32<V> odd_lanes(lanes32<V> x) {
  return ops::register_cast<lanes32<V>>(ops::register_cast<ops::vec<std::uint64_t, V / 2>>(x) >>
                                        32);
}

/// The upper halves of products, each in its lane.
template <int V>
[[gnu::always_inline]] inline lanes32<V> upper_halves(lanes64<V> even, lanes64<V> odd) {
  [[maybe_unused]] lanes32<V> y = ops::register_cast<lanes32<V>>(odd);
#if defined(__AVX512F__)
  if constexpr (V == 16) {
    __asm__("vmovshdup %1, %0%{%2%}" : "+v"(y) : "v"(even), "Yk"(std::uint16_t{0x5555}));
    return y;
  }
#endif
  const lanes32<V> low = odd_lanes<V>(ops::register_cast<lanes32<V>>(even));
#if defined(__AVX2__)
  if constexpr (V == 8) {
    __asm__("vpblendd $0x55, %1, %0, %0" : "+x"(y) : "x"(low));
    return y;
  }
#endif
  constexpr std::int64_t lower = 0xffffffff;
  return ops::register_cast<lanes32<V>>((ops::register_cast<lanes64<V>>(low) & lower) |
                                        (odd & ~lower));
}

/// The factors of V lanes. Requires that every result is below 2^29 in magnitude. Products are
/// scaled so that the result is in their upper halves.
template <int V>
class rescaling {
 public:
  /// (at most V) each; further lanes, and addends that are not given, are zero.
  explicit rescaling(std::span<const ops::fixed_point> factors,
                     std::span<const std::int64_t> addends = {}) {
    for (std::size_t v = 0; v < factors.size(); ++v) {
      const int total = 31 - factors[v].shift, left = std::max(0, 32 - total);
      std::int32_t multiplier = factors[v].multiplier;
      before_[v] = left;
      for (; before_[v] > 0 && multiplier < 1 << 30; --before_[v]) multiplier *= 2;
      after_[v] = total + left - 32;
      const std::int64_t half = std::int64_t{1} << (total - 1),
                         rounding = (half + (addends.empty() ? 0 : addends[v])) << left;
      if (v % 2 == 0) {
        multiplier_[v] = multiplier;
        even_rounding_[v / 2] = rounding;
      } else {
        odd_multiplier_[v - 1] = multiplier;
        odd_rounding_[v / 2] = rounding;
      }
    }
  }
  /// Member by member, into registers: g++ copies the whole in halves of them through memory, and
  /// loads of registers wait until all such stores are complete.
  [[gnu::always_inline]] rescaling(const rescaling& f)
      : before_(f.before_),
        after_(f.after_),
        multiplier_(f.multiplier_),
        odd_multiplier_(f.odd_multiplier_),
        even_rounding_(f.even_rounding_),
        odd_rounding_(f.odd_rounding_) {}
  // NOLINTNEXTLINE(cert-oop54-cpp): assigned to itself, each member is, too
  [[gnu::always_inline]] rescaling& operator=(const rescaling& f) {
    before_ = f.before_;
    after_ = f.after_;
    multiplier_ = f.multiplier_;
    odd_multiplier_ = f.odd_multiplier_;
    even_rounding_ = f.even_rounding_;
    odd_rounding_ = f.odd_rounding_;
    return *this;
  }
  [[gnu::always_inline]] lanes32<V> operator()(lanes32<V> x) const {
    x = x << before_;
    return upper_halves<V>(even_products<V>(x, multiplier_) + even_rounding_,
                           even_products<V>(odd_lanes<V>(x), odd_multiplier_) + odd_rounding_) >>
           after_;
  }

  /// Whether a factor is so large, 1/2 or more, that operator() shifts before it multiplies.
  [[nodiscard]] bool shifts_before() const {
    std::int32_t any = 0;
    for (int v = 0; v < V; ++v) any |= before_[v];
    return any != 0;
  }
  /// The same of V numbers in memory, with a readable one behind them, in three instructions less:
  /// odd lanes are the even ones of the numbers from the second on. Requires !shifts_before().
  [[gnu::always_inline]] lanes32<V> of_memory(const std::int32_t* x) const {
    const auto even = even_products<V>(multiplier_, ops::load<std::int32_t, V>(x)),
               odd = even_products<V>(odd_multiplier_, ops::load<std::int32_t, V>(x + 1));
    return upper_halves<V>(even + even_rounding_, odd + odd_rounding_) >> after_;
  }

 private:
  lanes32<V> before_{}, after_{};
  lanes32<V> multiplier_{}, odd_multiplier_{};  // in the even lanes
  lanes64<V> even_rounding_{}, odd_rounding_{};
};

/// R(x, f) + offset for numbers of 32 bits. Where f is a power of two up to 1, which shifts, they
/// are of magnitudes up to 2^23.
template <int V>
class wide_rescaling {
 public:
  /// `offset`: a byte.
  explicit wide_rescaling(ops::fixed_point f, int offset = 0) : lanes_(repeated(f)) {
    const int shift = 1 - f.shift;
    is_shift_ = f.multiplier == 1 << 30 && shift >= 0 && shift < 22;
    added_ += is_shift_ ? (offset << shift) + (1 << shift) / 2 : offset;
    if (is_shift_) shift_ += shift;
  }
  [[gnu::always_inline]] lanes32<V> operator()(lanes32<V> x) const {
    return is_shift_ ? shifted()(x) : lanes_(x) + added_;
  }

  /// Whether shifted() is the same.
  [[nodiscard]] bool is_shift() const { return is_shift_; }
  struct shift_rescaling {
    lanes32<V> added, shift;
    [[gnu::always_inline]] lanes32<V> operator()(lanes32<V> x) const {
      return (x + added) >> shift;
    }
  };
  [[gnu::always_inline]] shift_rescaling shifted() const { return {added_, shift_}; }
  /// R(x, f), without the offset.
  [[nodiscard]] const rescaling<V>& rescaled() const { return lanes_; }

 private:
  bool is_shift_ = false;
  lanes32<V> added_{}, shift_{};
  static std::array<ops::fixed_point, std::size_t{V}> repeated(ops::fixed_point f) {
    std::array<ops::fixed_point, std::size_t{V}> all;
    all.fill(f);
    return all;
  }
  rescaling<V> lanes_;
};

/// Stores numbers within 0 .. 255.
template <int V>
[[gnu::always_inline]] inline void store_bytes(std::uint8_t* y, lanes32<V> v) {
  v = v < 0 ? lanes32<V>{} : v;
#if defined(__AVX512F__)
  if constexpr (V == 16) {
    ops::vec<std::uint8_t, V> bytes;
    __asm__("vpmovusdb %1, %0" : "=v"(bytes) : "v"(v));
    return ops::store<std::uint8_t, V>(y, bytes);
  }
#endif
  v = v > 255 ? lanes32<V>{} + 255 : v;
  ops::store_narrowed<V>(y, v);
}
/// Packs the numbers of four registers into bytes, clipped to 0 .. 255.
template <int V>
[[gnu::always_inline]] inline ops::vec<std::uint8_t, 4 * V> packed_bytes(lanes32<V> a, lanes32<V> b,
                                                                         lanes32<V> c,
                                                                         lanes32<V> d) {
  ops::vec<std::uint8_t, 4 * V> bytes;
#if defined(__AVX512BW__)
  if constexpr (V == 16) {
    // Both pack within 128 bits: four numbers of each register.
    constexpr lanes32<V> order = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    lanes32<V> ab, cd;
    __asm__("vpackssdw %2, %1, %0" : "=v"(ab) : "v"(a), "v"(b));
    __asm__("vpackssdw %2, %1, %0" : "=v"(cd) : "v"(c), "v"(d));
    __asm__("vpackuswb %2, %1, %0" : "=v"(ab) : "v"(ab), "v"(cd));
    __asm__("vpermd %1, %2, %0" : "=v"(bytes) : "v"(ab), "v"(order));
    return bytes;
  }
#endif
  std::uint8_t numbers[std::size_t{4 * V}];
  store_bytes<V>(numbers, a);
  store_bytes<V>(numbers + V, b);
  store_bytes<V>(numbers + 2 * V, c);
  store_bytes<V>(numbers + 3 * V, d);
  std::memcpy(&bytes, numbers, sizeof bytes);
  return bytes;
}
/// Stores numbers that Out holds.
template <int V, class Out>
[[gnu::always_inline]] inline void store_within(Out* y, lanes32<V> v) {
  if constexpr (sizeof(Out) == 1)
    ops::store_narrowed<V>(y, v);
  else
    ops::store<Out, V>(y, __builtin_convertvector(v, ops::vec<Out, V>));
}
/// Stores numbers within low .. high.
template <int V, class Out>
[[gnu::always_inline]] inline void store_clipped(Out* y, lanes32<V> v, lanes32<V> low,
                                                 lanes32<V> high) {
  v = v < low ? low : v;
  v = v > high ? high : v;
  store_within<V>(y, v);
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
