// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a network in the form that its kernels read, as a table: a kernel that reads it
// packs all of them in one launch (ops/gpu/packed_table.hpp), however many tensors there are.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/ops/filter_tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// One parameter tensor, in a plane as (filters, channels, taps), packed as (filters', taps,
/// channels') with zeros in padded channels and filters; with `has_crsk` as (channels', taps,
/// filters') behind that, too. A vector has one filter and one tap.
///
/// Quantized weights are packed as bytes (filters', taps, channels'), with the sums of the filters
/// (filters') behind them in 32 bits, as scales (filters), and dequantized as (channels', taps,
/// filters') at `packed`.
struct packed_tensor {
  static constexpr unsigned most_quantized_taps = 2304;  // 256 channels of 3 x 3

  filter_tile tile;        // of a thread block
  std::size_t master = 0;  // offset in the plane, in numbers
  std::size_t packed = 0;  // offsets in the packed parameters, in bytes
  std::size_t bytes = 0, scales = 0;
  std::size_t blocks_before = 0;   // thread blocks of all tensors before
  std::size_t filters_before = 0;  // filters' of quantized tensors before
  bool is_number = false;          // packed as the activations' numbers; else as in the plane
  bool has_crsk = false;           // packed in both orders
  bool is_quantized = false;
  bool gradient_is_packed = false;  // backward writes its gradient in the packed form

  [[nodiscard]] std::size_t size() const {
    return std::size_t{tile.layout.filters} * tile.layout.channels * tile.layout.taps;
  }
  /// Numbers of one order.
  [[nodiscard]] std::size_t packed_size() const { return tile.layout.size(); }
  /// `next`, behind this tensor.
  [[nodiscard]] packed_tensor followed_by(packed_tensor next) const {
    next.blocks_before = blocks_before + tile.blocks();
    next.filters_before = filters_before + (is_quantized ? tile.layout.padded_filters : 0);
    return next;
  }
};

/// The weights of a convolution, as numbers. A thread block takes both orders by whole sectors of
/// 16-bit numbers; without taps it may take more.
inline packed_tensor packed_weights(const krsc_layout& layout, std::size_t master,
                                    std::size_t packed, bool has_crsk) {
  packed_tensor t;
  t.tile =
      layout.taps == 1 ? filter_tile(layout, 64, 64) : filter_tile(layout, has_crsk ? 16 : 8, 32);
  expects(t.tile.numbers() <= filter_tile::most_numbers,
          "packed_table: a window has at most 90 x 90 taps");
  t.master = master;
  t.packed = packed;
  t.is_number = true;
  t.has_crsk = has_crsk;
  return t;
}

/// The weights of a quantized convolution.
inline packed_tensor packed_quantized_weights(const krsc_layout& layout, std::size_t master,
                                              std::size_t packed, std::size_t bytes,
                                              std::size_t scales) {
  expects(layout.taps <= packed_tensor::most_quantized_taps,
          "packed_table: a quantized window has at most 48 x 48 taps");
  packed_tensor t = packed_weights(layout, master, packed, true);
  t.bytes = bytes;
  t.scales = scales;
  t.has_crsk = false;
  t.is_number = false;
  t.is_quantized = true;
  return t;
}

/// A vector of numbers as in the plane.
inline packed_tensor packed_vector(std::size_t master, std::size_t packed, std::size_t size,
                                   std::size_t padded) {
  krsc_layout layout;
  layout.channels = static_cast<unsigned>(size);
  layout.padded_channels = static_cast<unsigned>(padded);
  packed_tensor t;
  t.tile = filter_tile(layout, 1, 4096);
  t.master = master;
  t.packed = packed;
  return t;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
