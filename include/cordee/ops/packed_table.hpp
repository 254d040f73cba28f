// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a network in the form that its kernels read, as a table: a kernel that reads it
// packs all of them in one launch (ops/gpu/packed_table.hpp), however many tensors there are.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// One parameter tensor, in a plane as (filters, channels, taps), packed as (filters', taps,
/// channels') with zeros in padded channels and filters. A vector has one filter and one tap.
struct packed_tensor {
  static constexpr std::size_t chunk = 4096;  // numbers of a thread block

  std::size_t master = 0;  // offset in the plane, in numbers
  std::size_t packed = 0;  // offset in the packed parameters, in bytes
  unsigned channels = 1, filters = 1, taps = 1;
  unsigned padded_channels = 1, padded_filters = 1;
  bool is_number = false;           // packed as the activations' numbers; else as in the plane
  bool gradient_is_packed = false;  // backward writes its gradient in the packed form
  std::size_t master_chunks = 0, packed_chunks = 0;  // of all tensors before

  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t size() const {
    return std::size_t{filters} * channels * taps;
  }
  [[nodiscard]] CORDEE_HOST_DEVICE std::size_t packed_size() const {
    return std::size_t{padded_filters} * padded_channels * taps;
  }
  /// `next`, behind this tensor.
  [[nodiscard]] packed_tensor followed_by(packed_tensor next) const {
    next.master_chunks = master_chunks + (size() + chunk - 1) / chunk;
    next.packed_chunks = packed_chunks + (packed_size() + chunk - 1) / chunk;
    return next;
  }
};

/// A vector of numbers as in the plane.
inline packed_tensor packed_vector(std::size_t master, std::size_t packed, std::size_t size,
                                   std::size_t padded) {
  packed_tensor t;
  t.master = master;
  t.packed = packed;
  t.channels = static_cast<unsigned>(size);
  t.padded_channels = static_cast<unsigned>(padded);
  return t;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
