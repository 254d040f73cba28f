// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weight gradient of the 3x3 convolution of stride 1 and padding 1 on tiles.
//
//   du[k, c] = sum over tiles of  (A dy A^T)[k, tile] (B^T d B)[c, tile],  dw = G^T du G
//
// for each of the 16 elements of F(2 x 2, 3 x 3): the weight gradient of a 1x1 convolution, which
// engine `direct` computes. The rows of tiles are split into a fixed number of groups, whose sums
// are added in order: the result does not depend on the workers.
#pragma once

#include <cstddef>

#include <cordee/core/algorithm.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/packed_form.hpp>
#include <cordee/ops/engines/direct/tiles/wgrad_tile.hpp>
#include <cordee/ops/engines/winograd/correlation.hpp>
#include <cordee/ops/engines/winograd/packed_weights.hpp>
#include <cordee/ops/engines/winograd/transform.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <class N, int V>
class winograd_weight_gradient {
  using Real = precision::wide<N>;
  static constexpr int M = winograd_gradient_width;

 public:
  explicit winograd_weight_gradient(const convolution_problem& p)
      : in_(p.in), out_(p.out()), tiles_(M, p.in), weights_(M, p.filters, p.in.channels) {}

  [[nodiscard]] std::size_t workspace(int samples) const {
    return static_cast<std::size_t>(groups(samples)) * weights_.size();
  }

  void run(int samples,
           const N* x,   // (samples, C / V, H, W, V)
           const N* dy,  // (samples, K / V, H, W, V)
           Real* dw,     // (K, C, 3, 3)
           write_mode mode,
           Real* workspace,  // (groups, 16, K, C), of winograd_weights
           cpu::stream s) const {
    const auto groups = static_cast<std::size_t>(this->groups(samples)),
               filter_parts = this->filter_parts(), outs = channel_blocks(out_.channels, V),
               rows = static_cast<std::size_t>(samples) * static_cast<std::size_t>(tiles_.rows);
    device::parallel_dynamic(s, groups * filter_parts, [&](std::size_t task) {
      const std::size_t g = task / filter_parts, j = task % filter_parts;
      sum_group(rows * g / groups, rows * (g + 1) / groups, outs * j / filter_parts,
                outs * (j + 1) / filter_parts, x, dy, workspace + g * weights_.size());
    });
    device::parallel_dynamic(s, outs, [&](std::size_t b) {
      add_groups(b, groups, workspace + b * static_cast<std::size_t>(weights_.element.block_size()),
                 dw, mode);
    });
  }

 private:
  /// Each part of the filters transforms x again: enough filters that this costs little.
  [[nodiscard]] std::size_t filter_parts() const {
    return static_cast<std::size_t>(std::max(1, out_.channels / 64));
  }
  [[nodiscard]] int groups(int samples) const {
    return std::clamp(samples, 1, std::max(1, 8 / static_cast<int>(filter_parts())));
  }

  struct buffers {
    scratch<Real> x;   // (16, C / V, tiles, V)
    scratch<Real> dy;  // (16, filter blocks of the part, tiles, V)
  };

  /// sum (16, K, C) = the sums over rows of tiles first .. last-1, for filter blocks k .. past-1.
  void sum_group(std::size_t first, std::size_t last, std::size_t k, std::size_t past, const N* x,
                 const N* dy, Real* sum) const {
    thread_local buffers memory;
    const std::ptrdiff_t block = weights_.element.block_size();
    const auto begin = static_cast<std::ptrdiff_t>(k) * block,
               end = static_cast<std::ptrdiff_t>(past) * block;
    if (first == last)  // nothing overwrites
      for (int e = 0; e < winograd_elements(M); ++e)
        std::fill(sum + e * weights_.pitch() + begin, sum + e * weights_.pitch() + end, Real{});
    const std::size_t ins = channel_blocks(in_.channels, V);
    const std::size_t most = tile_rows_per_step<Real>(
        tiles_, in_.channels + static_cast<int>(past - k) * V, std::clamp(in_.channels, 28, 112));
    bool add = false;
    for (std::size_t next = 0; first < last; first = next, add = true) {
      next = std::min(last, first + most);
      const int tiles = static_cast<int>(next - first) * tiles_.columns;
      const tile_buffer<Real, V> data(memory.x, M, ins, tiles);  // (16, C / V, tiles, V)
      // (16, past - k, tiles, V)
      const tile_buffer<Real, V> dy_tiles(memory.dy, M, past - k, tiles);
      data.for_each_row(in_, first, next, 0, ins, x, [&](int i, const N* from, Real* to) {
        data_to_tiles<M, N, V>(in_, from, i, to, data.pitch);
      });
      dy_tiles.for_each_row(out_, first, next, k, past, dy, [&](int i, const N* from, Real* to) {
        dy_to_tiles<N, V>(out_, from, i, to, dy_tiles.pitch);
      });
      for (int e = 0; e < winograd_elements(M); ++e)
        multiply(tiles, e, past - k, data, dy_tiles, add, sum + e * weights_.pitch() + begin);
    }
  }

  void multiply(int tiles, int e, std::size_t blocks, const tile_buffer<Real, V>& data,
                const tile_buffer<Real, V>& dy_tiles, bool add, Real* sum) const {
    const std::ptrdiff_t block = weights_.element.block_size();
    const pixel_area area{.rows = 1,
                          .columns = tiles,
                          .x_step = V,
                          .dy_block = dy_tiles.block,
                          .dw_block = block,
                          .add = add};
    for (std::size_t b = 0, n = 0; b < blocks; b += n) {
      n = std::min<std::size_t>(max_filter_blocks<Real, V>, blocks - b);
      const auto tile = single_tap_tile<Real, V>(static_cast<int>(n));
      const int channels = channels_per_tile<Real, V>(static_cast<int>(n));
      for (std::size_t c = 0; c < channel_blocks(in_.channels, V); ++c)
        for (int first = 0; first < V; first += channels)
          tile(area, data.block_of(e, c) + first, dy_tiles.block_of(e, b),
               sum + static_cast<std::ptrdiff_t>(b) * block +
                   weights_.element.at(static_cast<int>(c) * V, 0, 0) + first * V);
    }
  }

  /// Adds the groups' sums of filter block b, in order, and writes canonical windows.
  void add_groups(std::size_t b, std::size_t groups, const Real* sums, Real* dw,
                  write_mode mode) const {
    thread_local scratch<Real> memory;
    const packed_form<V> windows{out_.channels, in_.channels, 3};
    // (C, 3, 3, V)
    Real* const packed = memory.reserve(static_cast<std::size_t>(windows.block_size()));
    for (int c = 0; c < in_.channels; ++c) {
      Real u[winograd_elements(M)][std::size_t{V}];
      const Real* const from = sums + weights_.element.at(c, 0, 0);
      for (int e = 0; e < winograd_elements(M); ++e) {
        vec<Real, V> sum = load<Real, V>(from + e * weights_.pitch());
        for (std::size_t g = 1; g < groups; ++g)
          sum += load<Real, V>(from + g * weights_.size() + e * weights_.pitch());
        store<Real, V>(u[e], sum);
      }
      tile_to_window<Real, V>(u[0], V, packed + windows.at(c, 0, 0), windows.tap_size());
    }
    windows.unpack(b, b + 1, packed, dw, mode);
  }

  extent in_, out_;
  winograd_tiles tiles_;
  winograd_weights<V> weights_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
