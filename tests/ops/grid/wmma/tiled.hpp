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

struct tiled {
  using tile = detail::wmma_tile<32, 4>;
  convolution_problem p{{5, 6, 5}, 12, 3, 1, 1};
  int samples = 7;  // more pixels than a tile has
  bench_on<emulated> at{emulated{1}};
  std::vector<double> x = short_numbers<half>(size(samples) * p.in.size(), 1),
                      w = short_numbers<half>(p.weights(), 2);

  [[nodiscard]] std::vector<half> in_memory(const std::vector<double>& v, const extent& e) const {
    const auto in_blocks = blocked<double>(v, e, samples, wmma::block<half>(e.channels));
    std::vector<half> out;
    out.reserve(in_blocks.size());  // no more, so that AddressSanitizer sees what is read behind
    for (const double one : in_blocks) out.push_back(nearest<half>(one));
    return out;
  }
  [[nodiscard]] std::vector<half> packed() const {
    std::vector<half> image(wmma::packed_size<half>(p));
    const std::vector<float> master(w.begin(), w.end());
    wmma::pack<half>(p, master.data(), image.data(), at.s);
    return image;
  }
  /// The definition's y of these x.
  [[nodiscard]] std::vector<double> exact(const std::vector<double>& x) const {
    std::vector<double> y(size(samples) * p.out().size());
    each_product(p, samples,
                 [&](std::size_t iw, std::size_t ix, std::size_t iy) { y[iy] += w[iw] * x[ix]; });
    return y;
  }
  template <class Tile = tile, class Before, class After>
  void correlate(const Before& before, const After& after) const {
    const auto from = in_memory(x, p.in), image = packed();
    const detail::correlation_body<half, Tile, Before, After> body{
        detail::fprop_sweep<half>(p, samples), from.data(), image.data(), before, after};
    at.s.launch(body.blocks(), body);
  }
  /// Room for y, and y in NCHW.
  [[nodiscard]] std::vector<half> room() const {
    return std::vector<half>(size(samples) * sample_size(p.out(), wmma::block<half>(p.filters)),
                             nearest<half>(99));
  }
  [[nodiscard]] std::vector<double> numbers(const std::vector<half>& y) const {
    std::vector<double> out;
    for (const half one : y) out.push_back(one.exact());
    CHECK(filling(out, p.out(), samples, wmma::block<half>(p.filters)) == 0);
    return plain(out, p.out(), samples, wmma::block<half>(p.filters));
  }
};

}  // namespace support
