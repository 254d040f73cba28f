// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The unit of a GPU thread's memory accesses: 16 bytes of adjacent numbers, computed in their wide
// type.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// What one access of `Bytes` bytes moves, from or to an address that is a multiple of them. nvcc
/// 13 keeps this type's accesses whole; a copy of bytes it splits where it unrolls a loop.
template <std::size_t Bytes>
struct [[gnu::may_alias]] alignas(Bytes) access_unit {
  using word = std::conditional_t<Bytes % 4 == 0, std::uint32_t,
                                  std::conditional_t<Bytes == 2, std::uint16_t, std::uint8_t>>;
  word words[Bytes / sizeof(word)];
};
/// 16 bytes to store, as one number.
struct [[gnu::may_alias]] alignas(16) quad_unit {
  __extension__ using number = unsigned __int128;
  number value;
};
/// Bytes of `out` <- those at `from`, by one access.
template <class T, std::size_t Size>
CORDEE_DEVICE void load_unit(const T* from, T (&out)[Size]) {
  const auto unit = *reinterpret_cast<const access_unit<sizeof(out)>*>(from);
  std::memcpy(static_cast<void*>(out), &unit, sizeof(out));
}
/// Words are put together from numbers by shifts: copied, they are stored number by number.
template <class T, std::size_t Size>
CORDEE_DEVICE access_unit<sizeof(T) * Size> unit_of(const T (&in)[Size]) {
  using unit_type = access_unit<sizeof(in)>;
  using word = typename unit_type::word;
  unit_type unit;
  if constexpr (sizeof(T) < sizeof(word)) {
    using bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
    constexpr std::size_t each = sizeof(word) / sizeof(T);
    for (std::size_t w = 0; w < Size / each; ++w) {
      word sum = 0;
      for (std::size_t k = 0; k < each; ++k)
        sum = static_cast<word>(sum | std::uint32_t{std::bit_cast<bits>(in[w * each + k])}
                                          << (8 * sizeof(T) * k));
      unit.words[w] = sum;
    }
  } else {
    std::memcpy(&unit, in, sizeof(in));
  }
  return unit;
}
template <class T, std::size_t Size>
CORDEE_DEVICE void store_unit(const T (&in)[Size], T* to) {
  const auto unit = unit_of(in);  // a variable: else the words are stored one by one
  *reinterpret_cast<access_unit<sizeof(in)>*>(to) = unit;
}
/// The same where a loop's body stores several units, of which nvcc 13 splits all but two.
template <class T, std::size_t Size>
CORDEE_DEVICE void store_whole_unit(const T (&in)[Size], T* to) {
  if constexpr (sizeof(in) == 16) {
    auto unit = unit_of(in);
    quad_unit whole{0};
    for (int w = 0; w < 4; ++w) {
      asm("" : "+r"(unit.words[w]));  // else numbers are shifted into place, not words
      whole.value |= quad_unit::number{unit.words[w]} << (32 * w);
    }
    *reinterpret_cast<quad_unit*>(to) = whole;
  } else {
    store_unit(in, to);
  }
}

/// `Size` adjacent numbers, loaded or stored by one access, which requires an address that is a
/// multiple of `alignment` bytes. Size 1 is for rows that are not whole vectors.
template <Number N, int Size = 16 / static_cast<int>(sizeof(N))>
struct vec_16b {
  static constexpr int size = Size;
  static constexpr std::size_t alignment = size * sizeof(N);

  using unit = access_unit<alignment>;

  precision::wide<N> value[std::size_t{size}] = {};

  vec_16b() = default;
  CORDEE_DEVICE explicit vec_16b(const N* from) {
    N numbers[std::size_t{size}];
    load_unit(from, numbers);
    for (int k = 0; k < size; ++k) value[k] = precision::widened(numbers[k]);
  }
  /// The first `count` numbers, one by one where they are not all; the rest is zero.
  CORDEE_DEVICE vec_16b(const N* from, int count) {
    if (count == size) {
      *this = vec_16b(from);
      return;
    }
    for (int k = 0; k < size; ++k)
      if (k < count) value[k] = precision::widened(from[k]);
  }
  CORDEE_DEVICE void store(N* to) const {
    N numbers[std::size_t{size}];
    round(numbers);
    store_unit(numbers, to);
  }
  /// The same, and the values become what is stored.
  CORDEE_DEVICE void round_and_store(N* to) {
    const unit rounded = round();  // a variable, as in store_unit
    *reinterpret_cast<unit*>(to) = rounded;
  }
  /// The values become what `store` would store.
  CORDEE_DEVICE unit round() {
    N numbers[std::size_t{size}];
    round(numbers);
    unit rounded = unit_of(numbers);
    for (auto& word : rounded.words) asm("" : "+r"(word));  // else numbers are rounded one by one
    std::memcpy(static_cast<void*>(numbers), &rounded, sizeof(numbers));
    for (int k = 0; k < size; ++k) value[k] = precision::widened(numbers[k]);
    return rounded;
  }
  CORDEE_DEVICE void store_whole(N* to) const {
    N numbers[std::size_t{size}];
    round(numbers);
    store_whole_unit(numbers, to);
  }
  CORDEE_DEVICE void store(N* to, int count) const {
    if (count == size) return store(to);
    for (int k = 0; k < size; ++k)
      if (k < count) to[k] = precision::rounded<N>(value[k]);
  }

 private:
  CORDEE_DEVICE void round(N (&numbers)[std::size_t{size}]) const {
    for (int k = 0; k < size; ++k) numbers[k] = precision::rounded<N>(value[k]);
  }
};

/// Numbers per access for rows of `row` numbers in these arrays: a whole vector, or 1 where rows or
/// arrays are not aligned to 16 bytes.
template <Number N, class... Memory>
int vec_16b_width(std::size_t row, const Memory*... memory) {
  const bool aligned =
      row % vec_16b<N>::size == 0 &&
      (... && (reinterpret_cast<std::uintptr_t>(memory) % vec_16b<N>::alignment == 0));
  return aligned ? vec_16b<N>::size : 1;
}

/// Numbers per access of activations in blocks of V channels, known when a kernel is compiled: a
/// whole vector, or 1 where V is not a multiple of it.
template <Number N, int V>
inline constexpr int vec_16b_size = V % vec_16b<N>::size == 0 ? vec_16b<N>::size : 1;

/// Requires that each array (or null) can be accessed by `Size` numbers at once.
template <int Size, class... Memory>
void expect_vec_aligned(const Memory*... memory) {
  expects((... && (reinterpret_cast<std::uintptr_t>(memory) % (Size * sizeof(Memory)) == 0)),
          "activations whose blocks of channels are whole vectors must be aligned to 16 bytes");
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
