// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How activations lie in memory: (N, ceil(C / V), H, W, V), channels in blocks of V.
//
// V is a template argument of every CPU kernel that reads activations. V = 1 is plain NCHW (engine
// `reference`); V = the floats of one SIMD register is the CPU's fast layout (engines `direct` and
// `winograd`, the default), where the channels of one pixel are one load. Channels that pad the
// last block are zero and stay zero.
// An engine decides its V with `block(channels)`.
#pragma once

#include <cstddef>

#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// Channels to a block of an activation in the engines `direct` and `winograd`: V, or all of them
/// where they are at most 4, as in the network's input.
template <int V>
constexpr int channel_block_size(int channels) {
  return channels <= 4 ? channels : V;
}

/// Blocks of `block` channels that hold so many channels.
constexpr std::size_t channel_blocks(int channels, int block) {
  return static_cast<std::size_t>((channels + block - 1) / block);
}
/// Numbers of one sample of extent `e` in blocks of `block` channels, padding included.
constexpr std::size_t sample_size(const extent& e, int block) {
  return channel_blocks(e.channels, block) * e.pixels() * static_cast<std::size_t>(block);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
