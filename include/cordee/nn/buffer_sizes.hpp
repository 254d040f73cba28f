// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes of activation buffers, and the indices by which layers name them.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Some activation buffers: their bytes for one sample together, and their number.
struct buffer_sizes {
  std::size_t bytes = 0, count = 0;

  static constexpr std::size_t alignment = 256;
  /// Their bytes for so many samples, each buffer rounded up to a multiple of `alignment`; itself
  /// such a multiple.
  [[nodiscard]] constexpr std::size_t bytes_of(std::size_t samples) const {
    return (samples * bytes + alignment - 1) / alignment * alignment + count * alignment;
  }
};

/// An activation buffer of the arena, by its index.
struct planned_buffer {
  std::size_t index, bytes;  // for a sample
  buffer_sizes before;       // those before it
};

/// The index of the activations of recomputed blocks.
inline constexpr std::size_t recomputed_activation = ~std::size_t{0} / 2;

/// The index of the output of a recomputed block, for the layer that computes it.
inline constexpr std::size_t block_output = recomputed_activation + 2;  // layers have two at most

/// The index of an output in memory of its own, which is not known yet.
inline constexpr std::size_t own_activation = recomputed_activation + 5;

/// The index of an output that its only reader computes again in backward (sequential.hpp).
inline constexpr std::size_t temporary_activation = recomputed_activation + 3;

/// The index of an output in memory that a layer behind gives (residual.hpp).
inline constexpr std::size_t given_activation = recomputed_activation + 4;

}  // namespace cordee::inline CORDEE_ABI::detail::nn
