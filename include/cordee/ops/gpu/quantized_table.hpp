// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Quantizes and packs the parameters of a network by two launches for a whole table
// (ops/packed_table.hpp): the first quantizes filters, the second packs the rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// A block quantizes one filter by its largest absolute weight: bytes (R, S, C'), their sum, and
/// the scale. Bytes pass through shared memory, all taps of some channels at once, so that weights
/// and bytes move along their memory; filters of padding become zeros.
struct quantize_table_kernel {
  static constexpr int threads = 128;
  static constexpr unsigned at_once = packed_tensor::most_quantized_taps;  // numbers
  const packed_tensor* table;
  std::size_t size;
  const float* plane;
  std::byte* packed;

  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return threads * sizeof(double) + at_once * sizeof(int);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const packed_tensor t = tensor_at(table, size, b.index(), &packed_tensor::filters_before);
    const krsc_layout& l = t.tile.layout;
    const auto k = static_cast<unsigned>(b.index() - t.filters_before);
    const unsigned numbers = k < l.filters ? l.channels * l.taps : 0;
    const float* const w = plane + t.master + std::size_t{k} * l.channels * l.taps;
    std::int8_t* const bytes = reinterpret_cast<std::int8_t*>(packed + t.bytes) +
                               std::size_t{k} * l.taps * l.padded_channels;
    double max = 0;
    for (auto i = static_cast<unsigned>(b.thread()); i < numbers; i += threads) {
      const float a = w[i] < 0 ? -w[i] : w[i];
      if (!(a <= max)) max = a == a ? a : std::numeric_limits<float>::infinity();
    }
    const auto quantizer = fit_symmetric(static_cast<float>(block_max<threads>(b, max)));
    int* const q = b.template shared<int>(at_once);
    unsigned log2 = 0;
    while (l.taps << (log2 + 1) <= at_once) ++log2;
    const unsigned channels = 1u << log2;
    double sum = 0;  // exact
    for (unsigned c0 = 0; c0 < l.padded_channels; c0 += channels) {
      const unsigned first = c0 * l.taps, last = std::min(first + channels * l.taps, numbers);
      for (unsigned i = first + static_cast<unsigned>(b.thread()); i < last; i += threads) {
        q[i - first] = quantizer.quantize(w[i]);
        sum += q[i - first];
      }
      b.sync();
      for (auto at = static_cast<unsigned>(b.thread()); at < l.taps << log2; at += threads) {
        const unsigned tap = at >> log2, c = at & (channels - 1), i = c * l.taps + tap;
        if (c0 + c < l.padded_channels)
          bytes[tap * l.padded_channels + c0 + c] =
              static_cast<std::int8_t>(first + i < last ? q[i] : 0);
      }
      b.sync();
    }
    sum = b.sum(sum);
    if (b.thread() != 0) return;
    reinterpret_cast<std::int32_t*>(packed + t.bytes + l.size())[k] =
        static_cast<std::int32_t>(sum);
    if (k < l.filters) reinterpret_cast<float*>(packed + t.scales)[k] = quantizer.scale;
  }
};

/// Quantizes and packs the `size` tensors of a table in device memory; `last` is a host copy of the
/// last one. Dequantized weights are of type Dequantized.
template <class Dequantized, GpuStream S>
void pack_quantized_table(const packed_tensor* table, std::size_t size, const packed_tensor& last,
                          const float* plane, Dequantized* packed, S s) {
  const packed_tensor end = last.followed_by(packed_tensor());
  auto* const bytes = reinterpret_cast<std::byte*>(packed);
  s.launch_kernel(end.filters_before, quantize_table_kernel{table, size, plane, bytes});
  s.launch_kernel(end.blocks_before,
                  pack_table_kernel<float, float, Dequantized>{table, size, plane, bytes});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
