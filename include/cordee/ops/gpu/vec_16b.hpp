// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The unit of a GPU thread's memory accesses: 16 bytes of adjacent numbers, computed in their wide
// type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Loaded from or stored to `count` numbers: all `size` of them by one access, which requires an
/// address that is a multiple of 16 bytes; fewer one by one, the rest being zero.
template <Number N>
struct vec_16b {
  static constexpr int size = 16 / static_cast<int>(sizeof(N));
  static constexpr std::size_t alignment = 16;

  precision::wide<N> value[size] = {};

  vec_16b() = default;
  CORDEE_DEVICE vec_16b(const N* from, int count) {
    N numbers[size] = {};
    if (count == size)
      std::memcpy(numbers, assume_aligned<const void>(from), sizeof(numbers));
    else
      for (int k = 0; k < size; ++k)
        if (k < count) numbers[k] = from[k];
    for (int k = 0; k < size; ++k) value[k] = precision::widened(numbers[k]);
  }
  CORDEE_DEVICE void store(N* to, int count) const {
    N numbers[size];
    for (int k = 0; k < size; ++k) numbers[k] = precision::rounded<N>(value[k]);
    if (count == size)
      std::memcpy(assume_aligned<void>(to), numbers, sizeof(numbers));
    else
      for (int k = 0; k < size; ++k)
        if (k < count) to[k] = numbers[k];
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

}  // namespace cordee::inline CORDEE_ABI::detail::ops
