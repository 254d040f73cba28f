// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a convolution on tensor cores does to the activations that it reads, on their way into
// shared memory. What lies outside of an image stays zero.
//
//   as_it_is         x
//   scale_bias_relu  max(0, scale[c] x + bias[c])
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/ops/grid/pack.hpp>

namespace cordee::inline CORDEE_ABI {

/// `copy` begins to bring 16 bytes; where it `changes` them, `change` does once they are there.
struct as_it_is {
  static constexpr bool changes = false;

  template <class Block>
  CORDEE_DEVICE void copy(Block& b, std::byte* to, const void* from, bool there) const {
    b.copy_async(to, from, there);
  }
};

template <Number N>
struct scale_bias_relu : as_it_is {
  static constexpr bool changes = true;
  const float* scale;  // of every channel that lies in memory
  const float* bias;

  CORDEE_DEVICE void change(int channel, std::byte* at) const {
    N* const numbers = reinterpret_cast<N*>(at);
    detail::pack<N> x(numbers, detail::pack<N>::size);
    for (int i = 0; i < x.size; ++i) {
      const float y = scale[channel + i] * x.at[i] + bias[channel + i];
      x.at[i] = y < 0 ? 0 : y;  // what is no number stays so
    }
    x.store(numbers, x.size);
  }
};

}  // namespace cordee::inline CORDEE_ABI
