// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a convolution of bytes (ops/engines/direct/int8/byte_tile.hpp) in an integer
// network: the sums are rescaled, and what a shortcut adds is added, while they are in registers.
// The members of a block are copies, in registers, since y could alias others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/infer/cpu/rescale_lanes.hpp>
#include <cordee/ops/cpu/simd.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
struct four_pixels {
  lanes32<V> a, b, c, d;
};
/// The rescaled sums of four pixels, which are in memory, with a readable number behind them.
template <int V>
[[gnu::always_inline]] inline four_pixels<V> rescaled_four(const rescaling<V>& rescale,
                                                           bool shifts_before,
                                                           const std::int32_t* sums) {
  if (!shifts_before)
    return {rescale.of_memory(sums), rescale.of_memory(sums + V), rescale.of_memory(sums + 2 * V),
            rescale.of_memory(sums + 3 * V)};
  const auto of = [&](int k) { return rescale(ops::load<std::int32_t, V>(sums + k * V)); };
  return {of(0), of(1), of(2), of(3)};
}

/// Writes outputs as bytes. Requires factors whose addends contain the zero point.
template <int V>
struct byte_epilogue {
  const rescaling<V>* factors;              // of each block of filters
  ops::vec<std::uint8_t, 4 * V> low, high;  // the same in each
  bool shifts_before;                       // any of the factors

  struct block {
    rescaling<V> rescale;
    ops::vec<std::uint8_t, 4 * V> low, high;
    std::uint8_t* y;
    bool shifts_before;

    /// Writes one pixel, `at` numbers behind y.
    [[gnu::always_inline]] void operator()(std::size_t at, lanes32<V> sum) const {
      lanes32<V> v = rescale(sum);
      const lanes32<V> least = lanes32<V>{} + low[0], most = lanes32<V>{} + high[0];
      v = v < least ? least : v;
      v = v > most ? most : v;
      store_bytes<V>(y + at, v);
    }
    /// Writes four adjacent pixels.
    [[gnu::always_inline]] void operator()(std::size_t at, lanes32<V> a, lanes32<V> b, lanes32<V> c,
                                           lanes32<V> d) const {
      store(at, rescale(a), rescale(b), rescale(c), rescale(d));
    }
    /// The same with sums in memory, and a readable number behind them.
    [[gnu::always_inline]] void finish_four(std::size_t at, const std::int32_t* sums) const {
      const four_pixels<V> x = rescaled_four(rescale, shifts_before, sums);
      store(at, x.a, x.b, x.c, x.d);
    }
    [[gnu::always_inline]] void store(std::size_t at, lanes32<V> a, lanes32<V> b, lanes32<V> c,
                                      lanes32<V> d) const {
      auto v = packed_bytes<V>(a, b, c, d);
      v = v < low ? low : v;
      v = v > high ? high : v;
      ops::store<std::uint8_t, 4 * V>(y + at, v);
    }
  };
  [[gnu::always_inline]] block of_block(std::size_t b, std::uint8_t* y) const {
    return {factors[b], low, high, y, shifts_before};
  }
  [[gnu::always_inline]] void prefetch(const std::uint8_t* y) const { __builtin_prefetch(y, 1); }
};

/// What a shortcut adds: nothing; numbers that are shifted; numbers with any factor.
enum class shortcut_kind { none, shifted, rescaled };

/// Writes 32-bit outputs, optionally with a copy in the bytes of their reader, which shifts.
/// Requires factors whose addends contain the zero point.
template <int V, shortcut_kind Kind>
struct stream_epilogue {
  const rescaling<V>* factors;  // of each block of filters
  const wide_rescaling<V>* residual_factor;
  const wide_rescaling<V>* to_copy;
  const std::int32_t* y;         // of the sample
  const std::int32_t* residual;  // of the sample, where it adds; may be y
  std::uint8_t* copy;            // of the sample; null: none
  lanes32<V> low, high;
  bool shifts_before;  // any of the factors

  using shift_rescaling = typename wide_rescaling<V>::shift_rescaling;
  struct block {
    rescaling<V> rescale;
    std::conditional_t<Kind == shortcut_kind::rescaled, rescaling<V>, shift_rescaling>
        rescale_residual;
    shift_rescaling to_bytes;
    lanes32<V> low, high;
    std::int32_t* y;
    const std::int32_t* residual;
    std::uint8_t* copy;
    bool shifts_before;

    [[gnu::always_inline]] void operator()(std::size_t at, lanes32<V> sum) const {
      const lanes32<V> v = store(at, rescale(sum));
      if (copy != nullptr) store_bytes<V>(copy + at, to_bytes(v));
    }
    [[gnu::always_inline]] void operator()(std::size_t at, lanes32<V> a, lanes32<V> b, lanes32<V> c,
                                           lanes32<V> d) const {
      store(at, rescale(a), rescale(b), rescale(c), rescale(d));
    }
    /// The same with sums in memory, and a readable number behind them.
    [[gnu::always_inline]] void finish_four(std::size_t at, const std::int32_t* sums) const {
      const four_pixels<V> x = rescaled_four(rescale, shifts_before, sums);
      store(at, x.a, x.b, x.c, x.d);
    }
    [[gnu::always_inline]] void store(std::size_t at, lanes32<V> a, lanes32<V> b, lanes32<V> c,
                                      lanes32<V> d) const {
      a = store(at, a);
      b = store(at + V, b);
      c = store(at + 2 * V, c);
      d = store(at + 3 * V, d);
      if (copy != nullptr)
        ops::store<std::uint8_t, 4 * V>(
            copy + at, packed_bytes<V>(to_bytes(a), to_bytes(b), to_bytes(c), to_bytes(d)));
    }

   private:
    [[gnu::always_inline]] lanes32<V> store(std::size_t at, lanes32<V> v) const {
      if constexpr (Kind != shortcut_kind::none)
        v += rescale_residual(ops::load<std::int32_t, V>(residual + at));
      v = v < low ? low : v;
      v = v > high ? high : v;
      ops::store<std::int32_t, V>(y + at, v);
      return v;
    }
  };
  [[gnu::always_inline]] block of_block(std::size_t b, std::int32_t* to) const {
    const auto of_residual = [&] {
      if constexpr (Kind == shortcut_kind::rescaled)
        return residual_factor->rescaled();
      else
        return residual_factor->shifted();
    };
    const std::ptrdiff_t at = to - y;
    return {factors[b],
            of_residual(),
            to_copy->shifted(),
            low,
            high,
            to,
            Kind == shortcut_kind::none ? nullptr : residual + at,
            copy == nullptr ? nullptr : copy + at,
            shifts_before};
  }
  [[gnu::always_inline]] void prefetch(const std::int32_t* to) const {
    __builtin_prefetch(to, 1);
    if constexpr (Kind != shortcut_kind::none)
      if (residual != y) __builtin_prefetch(residual + (to - y));
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
