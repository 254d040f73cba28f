// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The 3x3 window of stride 1 and padding 1 over tiles, forwards or back.
//
//   tiles of x, then for each of 16 elements  m[k, tile] = sum over c of u[k, c] v[c, tile],
//   then tiles of y: 16 multiplications give four sums that took 36
//
// An element's sums are a lone tap's over a row of tiles: engine `direct` makes them. A task takes
// some rows of tiles, of several images where those are small, and some filters through all three
// steps, in scratch of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/direct/tile.hpp>
#include <cordee/ops/winograd/transform.hpp>
#include <cordee/ops/winograd/weights.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Tiles of some rows: for each element (blocks of channels, tiles, V). A line more between
/// elements, or sixteen of them would compete for few places of the cache.
template <class Real, int V>
struct tile_store {
  std::ptrdiff_t block, pitch;
  Real* at;

  tile_store(scratch<Real>& memory, std::size_t blocks, int tiles)
      : block(std::ptrdiff_t{V} * tiles),
        pitch(static_cast<std::ptrdiff_t>(blocks) * block + V),
        at(memory.reserve(static_cast<std::size_t>(winograd_elements * pitch))) {}

  [[nodiscard]] Real* of(int element, std::size_t b) const {
    return at + element * pitch + static_cast<std::ptrdiff_t>(b) * block;
  }
  /// f(i, pixels, tiles) for rows of tiles first .. last-1 of all samples and blocks of channels k
  /// .. past-1: a row's number in its image, where that block of the image begins, from x on, and
  /// where element 0 of the row stands here.
  template <class Pixel, class F>
  void each_row(const extent& image, std::size_t first, std::size_t last, std::size_t k,
                std::size_t past, Pixel* x, const F& f) const {
    const winograd_tiles tiles(image);
    const auto rows = static_cast<std::size_t>(tiles.rows);
    const std::size_t blocks = blocks_of(image.channels, V), plane = image.pixels() * V;
    for (std::size_t b = k; b < past; ++b) {
      Real* here = of(0, b - k);
      for (std::size_t r = first; r < last; ++r, here += std::ptrdiff_t{V} * tiles.columns)
        f(static_cast<int>(r % rows), x + (r / rows * blocks + b) * plane, here);
    }
  }
};

/// Rows of tiles that are taken at once: their numbers, of so many channels, stay in the
/// second-level cache; but what meets fewer than `least` tiles, weights or sums, is read for too
/// little work.
template <class Real>
std::size_t tile_rows_at_once(const winograd_tiles& tiles, int channels, int least) {
  constexpr int numbers = 524288 / static_cast<int>(sizeof(Real));
  const int fit = numbers / (winograd_elements * channels);
  return static_cast<std::size_t>(
      std::max({1, fit / tiles.columns, (least + tiles.columns - 1) / tiles.columns}));
}

template <class Real, int V>
class winograd_correlation {
 public:
  winograd_correlation(const convolution_problem& p, bool back)
      : in_(back ? p.out() : p.in),
        out_(back ? p.in : p.out()),
        tiles_(in_),
        weights_(out_.channels, in_.channels) {}

  void run(int samples, const Real* x, const Real* u, Real* y, into how, cpu::stream s) const {
    const std::size_t all =
                          static_cast<std::size_t>(samples) * static_cast<std::size_t>(tiles_.rows),
                      outs = blocks_of(out_.channels, V);
    if (all == 0) return;
    // Filters enough that tiles, which every cut makes for itself, cost little beside them.
    const auto cuts = static_cast<std::size_t>(std::max(1, out_.channels / 128));
    const std::size_t most =
        tile_rows_at_once<Real>(tiles_, in_.channels + out_.channels / static_cast<int>(cuts), 28);
    const std::size_t parts =
        std::max((all + most - 1) / most, std::min(all, static_cast<std::size_t>(workers_of(s))));
    each_task(s, parts * cuts, [&](std::size_t task) {
      const std::size_t part = task / cuts, cut = task % cuts;
      some(all * part / parts, all * (part + 1) / parts, outs * cut / cuts, outs * (cut + 1) / cuts,
           x, u, y, how == into::add);
    });
  }

 private:
  struct memory {
    scratch<Real> x, y;
    std::vector<tap> taps;
  };

  /// Rows of tiles first .. last-1 of all samples, filter blocks k .. past-1.
  void some(std::size_t first, std::size_t last, std::size_t k, std::size_t past, const Real* x,
            const Real* u, Real* y, bool add) const {
    thread_local memory mine;
    const int tiles = static_cast<int>(last - first) * tiles_.columns;
    const std::size_t ins = blocks_of(in_.channels, V);
    const tile_store<Real, V> data(mine.x, ins, tiles), sums(mine.y, past - k, tiles);
    data.each_row(in_, first, last, 0, ins, x, [&](int i, const Real* from, Real* to) {
      data_to_tiles<Real, V>(in_, from, i, to, data.pitch);
    });
    mine.taps.clear();
    for (int c = 0; c < in_.channels; c += V)
      mine.taps.push_back(
          {c / V * data.block, weights_.element.at(c, 0, 0), std::min(V, in_.channels - c)});
    for (int e = 0; e < winograd_elements; ++e)
      multiply(mine.taps, tiles, e, k, past, data, u, sums);
    sums.each_row(out_, first, last, k, past, y, [&](int i, Real* to, const Real* from) {
      tiles_to_data<Real, V>(out_, from, sums.pitch, i, to, add);
    });
  }

  void multiply(const std::vector<tap>& taps, int tiles, int e, std::size_t k, std::size_t past,
                const tile_store<Real, V>& data, const Real* u,
                const tile_store<Real, V>& sums) const {
    for (std::size_t b = k; b < past; b += 2) {
      const bool pair = b + 1 < past;
      const std::ptrdiff_t block = weights_.element.block_size();
      const row_tile<Real> at{
          .pixels = tiles,
          .x = data.of(e, 0),
          .x_step = V,
          .x_row = data.block,
          .w = u + e * weights_.pitch() + static_cast<std::ptrdiff_t>(b) * block,
          .w_block = pair ? block : 0,
          .y = sums.of(e, b - k),
          .y_block = pair ? sums.block : 0,
          .y_step = V,
          .y_row = sums.block};
      (pair ? correlate_rows<Real, V, 2>
            : correlate_rows<Real, V, lone_blocks<Real, V>>)(at, taps.data(),
                                                             taps.data() + taps.size());
    }
  }

  extent in_, out_;
  winograd_tiles tiles_;
  winograd_weights<Real, V> weights_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
