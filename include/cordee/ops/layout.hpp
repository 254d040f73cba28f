// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How activations lie in memory: (N, ceil(C / V), H, W, V), channels in blocks of V.
//
// V is a template argument of every kernel that walks activations. V = 1 is plain NCHW (engine
// `reference`); V = one vector register is the CPU's fast layout (engine `direct`), where the
// channels of one pixel are one load. Channels that fill up the last block are zero and stay zero.
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>
#include <cordee/ops/simd.hpp>

namespace cordee::inline CORDEE_ABI {

/// Numbers that one sample of extent `e` takes in blocks of `block` channels.
constexpr std::size_t blocks_of(int channels, int block) {
  return static_cast<std::size_t>((channels + block - 1) / block);
}
constexpr std::size_t sample_size(const extent& e, int block) {
  return blocks_of(e.channels, block) * e.pixels() * static_cast<std::size_t>(block);
}

}  // namespace cordee::inline CORDEE_ABI
