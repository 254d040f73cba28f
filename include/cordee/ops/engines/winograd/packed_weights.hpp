// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The packed weights of engine `winograd`: the windows of a layer as tiles, G g G^T.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/winograd/transform.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The weights of one direction, (elements, packed form of 1x1 windows). Elements are V numbers
/// further apart than their size: otherwise they would map to the same few cache sets.
template <int V>
struct winograd_weights {
  int elements;
  packed_form<V> element;

  winograd_weights(int m, int outputs, int inputs)
      : elements(winograd_elements(m)), element{outputs, inputs, 1} {}

  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(elements) * (element.size() + V);
  }
  [[nodiscard]] std::ptrdiff_t pitch() const {
    return static_cast<std::ptrdiff_t>(element.size()) + V;
  }
  /// The offset of element 0 of a block of V outputs and input c.
  [[nodiscard]] std::ptrdiff_t at(std::size_t block, int c) const {
    return static_cast<std::ptrdiff_t>(block) * element.block_size() + element.at(c, 0, 0);
  }
};

/// The weights of both directions of a layer: for dgrad the windows are rotated by 180 degrees and
/// inputs and outputs exchanged.
template <class Real, int V>
struct winograd_packed_weights {
  int m;
  winograd_weights<V> fprop, dgrad;

  explicit winograd_packed_weights(const convolution_problem& p)
      : m(winograd_width<Real, V>(p.in)),
        fprop(m, p.filters, p.in.channels),
        dgrad(m, p.in.channels, p.filters) {}

  [[nodiscard]] std::size_t size() const { return fprop.size() + dgrad.size(); }

  /// Windows are rounded to N before they are transformed, their elements are not.
  template <class N = Real>
  void pack(const Real* master,  // (K, C, 3, 3)
            Real* packed,        // (elements, K, C), then (elements, C, K)
            cpu::stream s) const {
    device::parallel_dynamic(s, channel_blocks(fprop.element.outputs, V),
                             [&](std::size_t b) { pack<N>(b, master, packed); });
  }

 private:
  struct buffers {
    scratch<Real> windows;  // (1, C, 3, 3, V)
    scratch<Real> swapped;  // (C / V, V, 3, 3, V)
  };

  /// Packs filter block b. Channels that pad a block have zero weights.
  template <class N>
  void pack(std::size_t b, const Real* master, Real* packed) const {
    thread_local buffers memory;
    const auto to_tile =
        m == 2 ? window_to_tile<2, Real, V> : window_to_tile<widest_tiles<Real, V>, Real, V>;
    const int filters = fprop.element.outputs, channels = fprop.element.inputs;
    const packed_form<V> layer{filters, channels, 3}, block{V, channels, 3},
        swapped_block{channels, V, 3};
    Real* const windows = memory.windows.reserve(block.size());          // (1, C, 3, 3, V)
    Real* const swapped = memory.swapped.reserve(swapped_block.size());  // (C / V, V, 3, 3, V)
    if (filters % V != 0 || channels % V != 0) {
      std::fill_n(windows, block.size(), Real{});
      std::fill_n(swapped, swapped_block.size(), Real{});
    }
    layer.pack(b, b + 1, master, windows);
    round_all<N>(windows, block.size());
    block.swap_channels(0, 1, windows, swapped);
    for (int c = 0; c < channels; ++c)
      to_tile(windows + block.at(c, 0, 0), block.tap_size(), packed + fprop.at(b, c),
              fprop.pitch());
    Real* const packed_dgrad = packed + fprop.size();
    const int first = static_cast<int>(b) * V;
    for (std::size_t input = 0; input < channel_blocks(channels, V); ++input)
      for (int k = 0; k < std::min(V, filters - first); ++k)
        to_tile(swapped + static_cast<std::ptrdiff_t>(input) * swapped_block.block_size() +
                    swapped_block.at(k, 2, 2),
                -swapped_block.tap_size(), packed_dgrad + dgrad.at(input, first + k),
                dgrad.pitch());
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
