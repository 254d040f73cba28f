// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The unit of a GPU thread's memory accesses: 16 bytes of adjacent numbers, computed in their wide
// type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/core/error.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::ops {

/// `Size` adjacent numbers, loaded or stored by one access, which requires an address that is a
/// multiple of `alignment` bytes. Size 1 is for rows that are not whole vectors.
template <Number N, int Size = 16 / static_cast<int>(sizeof(N))>
struct vec_16b {
  static constexpr int size = Size;
  static constexpr std::size_t alignment = size * sizeof(N);

  wide<N> value[size] = {};

  vec_16b() = default;
  CORDEE_DEVICE explicit vec_16b(const N* from) {
    N numbers[size];
    std::memcpy(numbers, assume_aligned<const void>(from), sizeof(numbers));
    for (int k = 0; k < size; ++k) value[k] = widened(numbers[k]);
  }
  /// The first `count` numbers, one by one where they are not all; the rest is zero.
  CORDEE_DEVICE vec_16b(const N* from, int count) {
    if (count == size) {
      *this = vec_16b(from);
      return;
    }
    for (int k = 0; k < size; ++k)
      if (k < count) value[k] = widened(from[k]);
  }
  CORDEE_DEVICE void store(N* to) const {
    N numbers[size];
    for (int k = 0; k < size; ++k) numbers[k] = rounded<N>(value[k]);
    std::memcpy(assume_aligned<void>(to), numbers, sizeof(numbers));
  }
  CORDEE_DEVICE void store(N* to, int count) const {
    if (count == size) return store(to);
    for (int k = 0; k < size; ++k)
      if (k < count) to[k] = rounded<N>(value[k]);
  }

 private:
  // Through void*: nvcc 13 generates byte accesses for other pointer types.
  template <class Void>
  CORDEE_DEVICE static Void* assume_aligned(Void* memory) {
    return __builtin_assume_aligned(memory, alignment);
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

}  // namespace detail::ops
}  // namespace cordee::inline CORDEE_ABI
