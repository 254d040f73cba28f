// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The windows of a layer as tiles, G g G^T: what `pack` makes of the master.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/packed_form.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/winograd/transform.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// One direction: for each of 16 elements a packed form of lone taps, a line apart, or they would
/// compete for few places of the caches.
template <class Real, int V>
struct winograd_weights {
  packed_form<V> element;

  winograd_weights(int outputs, int inputs) : element{outputs, inputs, 1} {}

  [[nodiscard]] std::size_t size() const { return winograd_elements * (element.size() + V); }
  [[nodiscard]] std::ptrdiff_t pitch() const {
    return static_cast<std::ptrdiff_t>(element.size()) + V;
  }
  /// Element 0 of V outputs and input c.
  [[nodiscard]] std::ptrdiff_t at(std::size_t block, int c) const {
    return static_cast<std::ptrdiff_t>(block) * element.block_size() + element.at(c, 0, 0);
  }
};

/// Both directions of a layer: windows for fprop, turned around for dgrad.
template <class Real, int V>
struct winograd_image {
  winograd_weights<Real, V> forwards, back;

  explicit winograd_image(const convolution_problem& p)
      : forwards(p.filters, p.in.channels), back(p.in.channels, p.filters) {}

  [[nodiscard]] std::size_t size() const { return forwards.size() + back.size(); }

  void pack(const Real* master, Real* packed, cpu::stream s) const {
    each_task(s, blocks_of(forwards.element.outputs, V),
              [&](std::size_t b) { pack(b, master, packed); });
  }

 private:
  struct memory {
    scratch<Real> windows, turned;
  };

  /// Filter block b. What only fills a block of channels is zero.
  void pack(std::size_t b, const Real* master, Real* packed) const {
    thread_local memory mine;
    const int filters = forwards.element.outputs, channels = forwards.element.inputs;
    const packed_form<V> all{filters, channels, 3}, one{V, channels, 3}, other{channels, V, 3};
    Real* const windows = mine.windows.reserve(one.size());
    Real* const turned = mine.turned.reserve(other.size());
    if (filters % V != 0 || channels % V != 0) {
      std::fill_n(windows, one.size(), Real{});
      std::fill_n(turned, other.size(), Real{});
    }
    all.pack(b, b + 1, master, windows);
    one.turn(0, 1, windows, turned);
    for (int c = 0; c < channels; ++c)
      window_to_tile<Real, V>(windows + one.at(c, 0, 0), one.tap_size(), packed + forwards.at(b, c),
                              forwards.pitch());
    Real* const second = packed + forwards.size();
    const int first = static_cast<int>(b) * V;
    for (std::size_t block = 0; block < blocks_of(channels, V); ++block)
      for (int k = 0; k < std::min(V, filters - first); ++k)
        window_to_tile<Real, V>(
            turned + static_cast<std::ptrdiff_t>(block) * other.block_size() + other.at(k, 2, 2),
            -other.tap_size(), second + back.at(block, first + k), back.pitch());
  }
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
