// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Prologues: what a convolution on tensor cores applies to its input activations between global and
// shared memory. The padding around an image stays zero.
//
//   identity_prologue          x
//   scale_bias_relu_prologue   max(0, scale[c] x + bias[c])
#pragma once

#include <cstddef>
#include <cstdint>

#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// `copy` starts the copy of 16 bytes; if `has_transform`, `transform` is applied to them in shared
/// memory once the copy is complete. Without `pads_with_zeros` what is not valid is not zero, and
/// kernels of one tap, which do not ask for it, are launched only where no padding is read.
struct identity_prologue {
  static constexpr bool has_transform = false, pads_with_zeros = true;

  template <class Block>
  CORDEE_DEVICE void copy(Block& b, std::byte* to, const void* from, bool valid) const {
    b.copy_async(to, from, valid);
  }
};

template <Number N>
struct scale_bias_relu_prologue : identity_prologue {
  static constexpr bool has_transform = true;
  const float* scale;  // (C'), padded channels
  const float* bias;   // (C')

  CORDEE_DEVICE void transform(int channel, std::byte* data) const {
    N* const numbers = reinterpret_cast<N*>(data);
    vec_16b<N> x(numbers, vec_16b<N>::size);
    for (int i = 0; i < x.size; ++i) {
      const float y = scale[channel + i] * x.value[i] + bias[channel + i];
      x.value[i] = y < 0 ? 0 : y;  // NaN stays NaN
    }
    x.store(numbers, x.size);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
