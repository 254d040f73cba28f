// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weight gradient of the 3x3 window of stride 1 and padding 1 over tiles.
//
//   du[k, c] = sum over tiles of  (A e A^T)[k, tile] (B^T d B)[c, tile],  dw = G^T du G
//
// for each of 16 elements: a lone tap's weight gradient, which engine `direct` sums. Samples fall
// into a fixed number of groups whose sums are added in order: the result does not depend on the
// workers.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/gather.hpp>
#include <cordee/ops/direct/packed_form.hpp>
#include <cordee/ops/winograd/correlation.hpp>
#include <cordee/ops/winograd/transform.hpp>
#include <cordee/ops/winograd/weights.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class Real, int V>
class winograd_weight_gradient {
 public:
  explicit winograd_weight_gradient(const convolution_problem& p)
      : in_(p.in), out_(p.out()), tiles_(p.in), weights_(p.filters, p.in.channels) {}

  [[nodiscard]] std::size_t workspace(int samples) const {
    return static_cast<std::size_t>(groups(samples)) * weights_.size();
  }

  void run(int samples, const Real* x, const Real* dy, Real* dw, into how, Real* workspace,
           cpu::stream s) const {
    const auto parts = static_cast<std::size_t>(groups(samples)), sets = this->sets(),
               all = blocks_of(out_.channels, V),
               rows = static_cast<std::size_t>(samples) * static_cast<std::size_t>(tiles_.rows);
    each_task(s, parts * sets, [&](std::size_t task) {
      const std::size_t part = task / sets, set = task % sets;
      group(rows * part / parts, rows * (part + 1) / parts, all * set / sets,
            all * (set + 1) / sets, x, dy, workspace + part * weights_.size());
    });
    each_task(s, all, [&](std::size_t b) {
      publish(b, parts, workspace + b * static_cast<std::size_t>(weights_.element.block_size()), dw,
              how);
    });
  }

 private:
  /// Of filters that share the tiles of x: enough that making them costs little.
  [[nodiscard]] std::size_t sets() const {
    return static_cast<std::size_t>(std::max(1, out_.channels / 64));
  }
  [[nodiscard]] int groups(int samples) const {
    return std::clamp(samples, 1, std::max(1, 8 / static_cast<int>(sets())));
  }

  struct memory {
    scratch<Real> x, dy;
  };

  /// The sums over rows of tiles first .. last-1, for filter blocks k .. past-1.
  void group(std::size_t first, std::size_t last, std::size_t k, std::size_t past, const Real* x,
             const Real* dy, Real* sum) const {
    thread_local memory mine;
    const std::ptrdiff_t block = weights_.element.block_size();
    const auto begin = static_cast<std::ptrdiff_t>(k) * block,
               end = static_cast<std::ptrdiff_t>(past) * block;
    for (int e = 0; e < winograd_elements; ++e)
      std::fill(sum + e * weights_.pitch() + begin, sum + e * weights_.pitch() + end, Real{});
    const std::size_t ins = blocks_of(in_.channels, V);
    const std::size_t most = tile_rows_at_once<Real>(
        tiles_, in_.channels + static_cast<int>(past - k) * V, std::clamp(in_.channels, 28, 112));
    for (std::size_t next = 0; first < last; first = next) {
      next = std::min(last, first + most);
      const int tiles = static_cast<int>(next - first) * tiles_.columns;
      const tile_store<Real, V> data(mine.x, ins, tiles), errors(mine.dy, past - k, tiles);
      data.each_row(in_, first, next, 0, ins, x, [&](int i, const Real* from, Real* to) {
        data_to_tiles<Real, V>(in_, from, i, to, data.pitch);
      });
      errors.each_row(out_, first, next, k, past, dy, [&](int i, const Real* from, Real* to) {
        error_to_tiles<Real, V>(out_, from, i, to, errors.pitch);
      });
      for (int e = 0; e < winograd_elements; ++e)
        multiply(tiles, e, past - k, data, errors, sum + e * weights_.pitch() + begin);
    }
  }

  void multiply(int tiles, int e, std::size_t blocks, const tile_store<Real, V>& data,
                const tile_store<Real, V>& errors, Real* sum) const {
    const std::ptrdiff_t block = weights_.element.block_size();
    const pixel_area area{
        .rows = 1, .columns = tiles, .x_step = V, .dy_block = errors.block, .dw_block = block};
    for (std::size_t b = 0, n = 0; b < blocks; b += n) {
      n = std::min<std::size_t>(filter_blocks<Real, V>, blocks - b);
      const auto tile = gather_of<Real, V>(static_cast<int>(n));
      const int channels = channels_at_once<Real, V>(static_cast<int>(n));
      for (std::size_t c = 0; c < blocks_of(in_.channels, V); ++c)
        for (int first = 0; first < V; first += channels)
          tile(area, data.of(e, c) + first, errors.of(e, b),
               sum + static_cast<std::ptrdiff_t>(b) * block +
                   weights_.element.at(static_cast<int>(c) * V, 0, 0) + first * V);
    }
  }

  /// The groups' sums of filter block b, in order, to canonical windows.
  void publish(std::size_t b, std::size_t parts, const Real* sums, Real* dw, into how) const {
    thread_local scratch<Real> mine;
    const packed_form<V> windows{out_.channels, in_.channels, 3};
    Real* const packed = mine.reserve(static_cast<std::size_t>(windows.block_size()));
    for (int c = 0; c < in_.channels; ++c) {
      Real u[winograd_elements][V];
      const Real* const from = sums + weights_.element.at(c, 0, 0);
      for (int e = 0; e < winograd_elements; ++e) {
        vec<Real, V> sum = load<Real, V>(from + e * weights_.pitch());
        for (std::size_t part = 1; part < parts; ++part)
          sum += load<Real, V>(from + part * weights_.size() + e * weights_.pitch());
        store<Real, V>(u[e], sum);
      }
      tile_to_window<Real, V>(u[0], V, packed + windows.at(c, 0, 0), windows.tap_size());
    }
    windows.unpack(b, b + 1, packed, dw, how);
  }

  extent in_, out_;
  winograd_tiles tiles_;
  winograd_weights<Real, V> weights_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
