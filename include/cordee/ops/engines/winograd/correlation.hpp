// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The 3x3 convolution of stride 1 and padding 1 on tiles: fprop, or dgrad with dy as x.
//
//   v = tiles of x,  m[k, tile] = sum over c of u[k, c] v[c, tile]  for each element,
//   y = tiles m transformed back
//
// An element's sums are a 1x1 convolution over a row of tiles, which engine `direct` computes. A
// task computes all three steps for some rows of tiles (of several images where they are small) and
// some filters, in thread-local scratch.
#pragma once

#include <cstddef>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/engines/direct/tiles/tile.hpp>
#include <cordee/ops/engines/winograd/packed_weights.hpp>
#include <cordee/ops/engines/winograd/transform.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The tiles of some rows, (elements, blocks of channels, tiles, V). Elements are V numbers further
/// apart than their size: otherwise they would map to the same few cache sets.
template <class Real, int V>
struct tile_buffer {
  int m;
  std::ptrdiff_t block, pitch;  // from one block of channels, from one element to the next
  Real* data;

  tile_buffer(scratch<Real>& memory, int width, std::size_t blocks, int tiles)
      : m(width),
        block(std::ptrdiff_t{V} * tiles),
        pitch(static_cast<std::ptrdiff_t>(blocks) * block + V),
        data(memory.reserve(static_cast<std::size_t>(winograd_elements(m) * pitch))) {}

  [[nodiscard]] Real* block_of(int element, std::size_t b) const {
    return data + element * pitch + static_cast<std::ptrdiff_t>(b) * block;
  }
  /// Calls f(i, pixels, tiles) for rows of tiles first .. last-1 of all samples and blocks of
  /// channels k .. past-1: the row's index in its image, the block of that image in x, and element
  /// 0 of the row in this buffer.
  template <class Pixel, class F>
  void for_each_row(const extent& image, std::size_t first, std::size_t last, std::size_t k,
                    std::size_t past, Pixel* x, const F& f) const {
    const winograd_tiles tiles(m, image);
    const auto rows = static_cast<std::size_t>(tiles.rows);
    const std::size_t blocks = channel_blocks(image.channels, V), plane = image.pixels() * V;
    for (std::size_t b = k; b < past; ++b) {
      Real* row = block_of(0, b - k);
      for (std::size_t r = first; r < last; ++r, row += std::ptrdiff_t{V} * tiles.columns)
        f(static_cast<int>(r % rows), x + (r / rows * blocks + b) * plane, row);
    }
  }
};

/// The rows of tiles of one step: as many as fit the second-level cache with so many channels, but
/// at least `least` tiles, so that weights and sums are reused often enough.
template <class Real>
std::size_t tile_rows_per_step(const winograd_tiles& tiles, int channels, int least) {
  constexpr int numbers = 524288 / static_cast<int>(sizeof(Real));
  const int fit = numbers / (winograd_elements(tiles.m) * channels);
  return static_cast<std::size_t>(
      std::max({1, fit / tiles.columns, (least + tiles.columns - 1) / tiles.columns}));
}

template <class N, int V>
class winograd_correlation {
  using Real = precision::wide<N>;
  static constexpr int widest = widest_tiles<Real, V>;

 public:
  winograd_correlation(const convolution_problem& p, bool dgrad)
      : in_(dgrad ? p.out() : p.in),
        out_(dgrad ? p.in : p.out()),
        tiles_(winograd_width<Real, V>(in_), in_),
        weights_(tiles_.m, out_.channels, in_.channels) {}

  void run(int samples,
           const N* x,     // (samples, C / V, H, W, V)
           const Real* u,  // winograd_weights, (elements, K, C)
           N* y,           // (samples, K / V, H, W, V)
           write_mode mode, cpu::stream s) const {
    const std::size_t rows =
                          static_cast<std::size_t>(samples) * static_cast<std::size_t>(tiles_.rows),
                      outs = channel_blocks(out_.channels, V);
    if (rows == 0) return;
    const task_parts parts = parts_of(rows, static_cast<std::size_t>(device::workers_of(s)));
    device::parallel_dynamic(s, parts.rows * parts.filters, [&](std::size_t task) {
      const std::size_t i = task / parts.filters, j = task % parts.filters;
      run_part(rows * i / parts.rows, rows * (i + 1) / parts.rows, outs * j / parts.filters,
               outs * (j + 1) / parts.filters, x, u, y, mode == write_mode::add);
    });
  }

 private:
  struct buffers {
    scratch<Real> x;  // v: (elements, C / V, tiles, V)
    scratch<Real> y;  // m: (elements, filter blocks of the part, tiles, V)
    std::vector<tap> taps;
  };

  struct task_parts {
    std::size_t rows, filters;
  };
  /// Each part of the rows reads all weights, and each part of the filters transforms x again: as
  /// few parts as the cache and the workers allow. The more channels, the more tiles to a part,
  /// since weights that exceed the second-level cache are read from further away.
  [[nodiscard]] task_parts parts_of(std::size_t rows, std::size_t workers) const {
    const auto divided = [](std::size_t a, std::size_t b) { return (a + b - 1) / b; };
    const auto row_parts = [&](int least) {
      const int filters = std::min(out_.channels, 128);
      return divided(rows, tile_rows_per_step<Real>(tiles_, in_.channels + filters, least));
    };
    const auto filter_parts = [&](int filters) {
      return static_cast<std::size_t>(std::max(1, out_.channels / filters));
    };
    const std::size_t few = row_parts(std::clamp(in_.channels / 4, 28, 128)),
                      tasks = workers > 1 ? 2 * workers : 1,
                      filters =
                          std::clamp(divided(tasks, few), filter_parts(256), filter_parts(128)),
                      many = std::max(row_parts(28), std::min(rows, workers));
    return {std::clamp(divided(tasks, filters), few, many), filters};
  }

  /// Rows of tiles first .. last-1 of all samples, filter blocks k .. past-1.
  void run_part(std::size_t first, std::size_t last, std::size_t k, std::size_t past, const N* x,
                const Real* u, N* y, bool add) const {
    thread_local buffers memory;
    const int tiles = static_cast<int>(last - first) * tiles_.columns;
    const std::size_t ins = channel_blocks(in_.channels, V);
    const auto m = tiles_.m;
    const tile_buffer<Real, V> data(memory.x, m, ins, tiles), sums(memory.y, m, past - k, tiles);
    const auto to_tiles = m == 2 ? data_to_tiles<2, N, V> : data_to_tiles<widest, N, V>;
    const auto to_data = m == 2 ? tiles_to_data<2, N, V> : tiles_to_data<widest, N, V>;
    data.for_each_row(in_, first, last, 0, ins, x, [&](int i, const N* from, Real* to) {
      to_tiles(in_, from, i, to, data.pitch);
    });
    memory.taps.clear();
    for (int c = 0; c < in_.channels; c += V)
      memory.taps.push_back(
          {c / V * data.block, weights_.element.at(c, 0, 0), std::min(V, in_.channels - c)});
    for (int e = 0; e < weights_.elements; ++e)
      multiply(memory.taps, tiles, e, k, past, data, u, sums);
    sums.for_each_row(out_, first, last, k, past, y, [&](int i, N* to, const Real* from) {
      to_data(out_, from, sums.pitch, i, to, add);
    });
  }

  void multiply(const std::vector<tap>& taps, int tiles, int e, std::size_t k, std::size_t past,
                const tile_buffer<Real, V>& data, const Real* u,
                const tile_buffer<Real, V>& sums) const {
    for (std::size_t b = k; b < past; b += 2) {
      const bool pair = b + 1 < past;
      const std::ptrdiff_t block = weights_.element.block_size();
      const row_tile<Real> tile{
          .pixels = tiles,
          .x = data.block_of(e, 0),
          .x_step = V,
          .x_row = data.block,
          .w = u + e * weights_.pitch() + static_cast<std::ptrdiff_t>(b) * block,
          .w_block = pair ? block : 0,
          .y = sums.block_of(e, b - k),
          .y_block = pair ? sums.block : 0,
          .y_step = V,
          .y_row = sums.block};
      (pair ? correlate_rows<Real, V, 2>
            : correlate_rows<Real, V, min_tile_blocks<Real, V>>)(tile, taps.data(),
                                                                 taps.data() + taps.size());
    }
  }

  extent in_, out_;
  winograd_tiles tiles_;
  winograd_weights<V> weights_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
