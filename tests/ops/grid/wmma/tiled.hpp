// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bodies of engine wmma by themselves, in one tile and with what is done before and after, on
// numbers whose sums are exact in float.
#pragma once

#include <vector>

#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/engines.hpp"
#include "tests/support/stored.hpp"

namespace support {

/// Scale and bias of every channel in memory: what fills is scaled and shifted too, and has no
/// weight; a shift up shows where zeros outside of the image are taken for pixels.
struct affine_channels {
  std::vector<float> scale{1, -1, 2, 0.5, 1, 3, 3, 3}, bias{1, 0.5, -1, 2, 0, 7, 7, 7};

  [[nodiscard]] std::vector<double> of(std::vector<double> x, const extent& e) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i / e.pixels() % size(e.channels);
      x[i] = std::max(0.0, scale[c] * x[i] + bias[c]);
    }
    return x;
  }
};

template <Number N = half, class Tile = detail::wmma_tile<32, 4>>
struct tiled {
  using number = N;
  using tile = Tile;
  convolution_problem p{{5, 6, 5}, 12, 3, 1, 1};
  int samples = 7;  // more pixels than a tile has
  bench_on<emulated> at{emulated{1}};
  std::vector<double> x = short_numbers<N>(size(samples) * p.in.size(), 1),
                      w = short_numbers<N>(p.weights(), 2);

  [[nodiscard]] std::vector<N> in_memory(const std::vector<double>& v, const extent& e) const {
    const auto in_blocks = blocked<double>(v, e, samples, wmma::block<N>(e.channels));
    std::vector<N> out;
    out.reserve(in_blocks.size());  // no more, so that AddressSanitizer sees what is read behind
    for (const double one : in_blocks) out.push_back(nearest<N>(one));
    return out;
  }
  [[nodiscard]] std::vector<N> packed() const {
    std::vector<N> image(wmma::packed_size<N>(p));
    const std::vector<float> master(w.begin(), w.end());
    wmma::pack<N>(p, master.data(), image.data(), at.s);
    return image;
  }
  /// The definition's y of these x.
  [[nodiscard]] std::vector<double> exact(const std::vector<double>& x) const {
    std::vector<double> y(size(samples) * p.out().size());
    each_product(p, samples,
                 [&](std::size_t iw, std::size_t ix, std::size_t iy) { y[iy] += w[iw] * x[ix]; });
    return y;
  }
  template <class Before, class After>
  void correlate(const Before& before, const After& after) const {
    const auto from = in_memory(x, p.in), image = packed();
    const detail::correlation_body<N, Tile, Before, After> body{
        detail::fprop_sweep<N>(p, samples), from.data(), image.data(), before, after};
    at.s.launch(body.blocks(), body);
  }
  /// Room for y, and y in NCHW.
  [[nodiscard]] std::vector<N> room() const {
    return std::vector<N>(size(samples) * sample_size(p.out(), wmma::block<N>(p.filters)),
                          nearest<N>(99));
  }
  [[nodiscard]] std::vector<double> numbers(const std::vector<N>& y) const {
    std::vector<double> out;
    for (const N one : y) out.push_back(one.exact());
    CHECK(filling(out, p.out(), samples, wmma::block<N>(p.filters)) == 0);
    return plain(out, p.out(), samples, wmma::block<N>(p.filters));
  }
};

}  // namespace support
