// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What one thread of a GPU takes at once: neighbouring numbers, sixteen bytes of them, in the type
// that they are computed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Read or written at `count` places: all of them by one access, at a multiple of sixteen bytes;
/// fewer one by one, and the others are zero.
template <Number N>
struct pack {
  static constexpr int size = 16 / static_cast<int>(sizeof(N));
  static constexpr std::size_t alignment = 16;

  wide<N> at[size] = {};

  pack() = default;
  CORDEE_DEVICE pack(const N* from, int count) {
    N all[size] = {};
    if (count == size)
      std::memcpy(all, whole<const void>(from), sizeof(all));
    else
      for (int k = 0; k < size; ++k)
        if (k < count) all[k] = from[k];
    for (int k = 0; k < size; ++k) at[k] = widened(all[k]);
  }
  CORDEE_DEVICE void store(N* to, int count) const {
    N all[size];
    for (int k = 0; k < size; ++k) all[k] = rounded<N>(at[k]);
    if (count == size)
      std::memcpy(whole<void>(to), all, sizeof(all));
    else
      for (int k = 0; k < size; ++k)
        if (k < count) to[k] = all[k];
  }

 private:
  // Through void, as nvcc 13 makes bad code of other pointers.
  template <class Void>
  CORDEE_DEVICE static Void* whole(Void* memory) {
    return __builtin_assume_aligned(memory, alignment);
  }
};

/// Numbers that a thread takes of rows of `row` numbers in memories that begin there: a pack, or
/// one where rows or memories do not begin at multiples of a pack.
template <Number N, class... Memory>
int pack_width(std::size_t row, const Memory*... begin) {
  const bool whole = row % pack<N>::size == 0 &&
                     (... && (reinterpret_cast<std::uintptr_t>(begin) % pack<N>::alignment == 0));
  return whole ? pack<N>::size : 1;
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
