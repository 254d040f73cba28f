// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes that the tiles of an implicit GEMM request: a tile of pixels and filters reads what
// lies under the windows of its pixels, tap by tap, and the weights of its filters, so that the
// input is requested once for each tap that lies in the image and each tile across, and the weights
// once for each tile down. (A warp that holds neighbouring pixels at neighbouring taps requests
// fewer.)
#pragma once

#include <cstddef>

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>
#include <cordee/ops/engines/tensor_core/tile.hpp>

namespace checked {

/// Pairs of a pixel and a tap that reads a pixel of the image.
inline std::size_t taps_inside(const cordee::detail::ops::gemm_axis& axis) {
  std::size_t inside = 0;
  for (int i = 0; i < axis.count; ++i)
    for (int u = 0; u < axis.taps; ++u) {
      const int at = axis.origin + i * axis.stride + u * axis.direction;
      inside += at >= 0 && at < axis.in ? 1 : 0;
    }
  return inside;
}
inline std::size_t taps_inside(const cordee::detail::ops::implicit_gemm& g) {
  return static_cast<std::size_t>(g.samples) * taps_inside(g.down) * taps_inside(g.across);
}

struct tile_counts {
  std::size_t pixels = 0, terms = 0, filters = 0;  // tiles of so many of each
  explicit tile_counts(const cordee::detail::ops::implicit_gemm& g) {
    cordee::detail::ops::with_tensor_core_tile(g.filters, [&]<class Tile>(Tile) {
      const auto tiles = [](auto n, int of) {
        return cordee::detail::device::blocks_for(static_cast<std::size_t>(n),
                                                  static_cast<std::size_t>(of));
      };
      pixels = tiles(g.pixels(), Tile::rows);
      terms = tiles(g.depth(), Tile::rows);
      filters = tiles(g.filters, Tile::columns);
    });
  }
};

/// Of one GEMM, of numbers of N and weights of as many bytes.
template <class N>
std::size_t gemm_requests(const cordee::detail::ops::implicit_gemm& g) {
  const tile_counts tiles(g);
  const auto channels = static_cast<std::size_t>(g.channels),
             weights = static_cast<std::size_t>(g.filters) * static_cast<std::size_t>(g.depth());
  return sizeof(N) * (taps_inside(g) * channels * tiles.filters + weights * tiles.pixels);
}
template <class N>
std::size_t fprop_requests(const cordee::convolution_problem& p, int samples) {
  return gemm_requests<N>(cordee::detail::ops::fprop_gemm<N>(p, samples));
}
/// Of the GEMMs of a stride's remainders.
template <class N>
std::size_t dgrad_requests(const cordee::convolution_problem& p, int samples) {
  std::size_t sum = 0;
  for (int row = 0; row < p.stride; ++row)
    for (int column = 0; column < p.stride; ++column)
      sum += gemm_requests<N>(cordee::detail::ops::dgrad_gemm<N>(p, samples, row, column));
  return sum;
}
/// Of the tiles of terms and filters, all splits together: x by those of filters, dy by those of
/// terms.
template <class N>
std::size_t wgrad_requests(const cordee::convolution_problem& p, int samples) {
  const auto g = cordee::detail::ops::fprop_gemm<N>(p, samples);
  const tile_counts tiles(g);
  return sizeof(N) * (taps_inside(g) * static_cast<std::size_t>(g.channels) * tiles.filters +
                      g.pixels() * static_cast<std::size_t>(g.filters) * tiles.terms);
}

}  // namespace checked
