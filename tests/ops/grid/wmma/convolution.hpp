// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What engine `wmma` promises on any device with grids of whole warps.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/engines.hpp"
#include "tests/support/stored.hpp"

namespace support {

/// Windows, strides and paddings; channels and filters that fill their copies, and that do not;
/// all three tiles, more than one tile down and across, and more than one part of the pixels.
inline constexpr convolution_problem tensor_shapes[] = {
    {{3, 9, 8}, 16, 3, 1, 1},   {{8, 5, 4}, 8, 3, 1, 1},    {{5, 6, 5}, 3, 3, 2, 1},
    {{16, 4, 5}, 40, 1, 1, 0},  {{8, 5, 4}, 16, 1, 2, 0},   {{3, 9, 8}, 4, 7, 2, 3},
    {{1, 1, 1}, 3, 3, 1, 1},    {{2, 7, 9}, 2, 3, 3, 0},    {{2, 4, 3}, 2, 2, 1, 2},
    {{72, 3, 2}, 136, 1, 1, 0}, {{12, 19, 18}, 9, 3, 1, 1},
};

/// Numbers whose sums are exact in float: right is the definition's, rounded once.
struct exactly {
  template <Number N>
  static std::vector<double> draw(std::size_t n, std::uint64_t which) {
    return short_numbers<N>(n, which);
  }
  template <Number R>
  static bool same(const std::vector<double>& found, const std::vector<double>& right) {
    return found == as<R>(right);
  }
};
/// Numbers that N holds: right within a few of its roundings, in the mean of the squares.
struct nearly {
  template <Number N>
  static std::vector<double> draw(std::size_t n, std::uint64_t which) {
    return as<N>(random_numbers(n, which));
  }
  template <Number R>
  static bool same(const std::vector<double>& found, const std::vector<double>& right) {
    double off = 0, whole = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      off += (found[i] - right[i]) * (found[i] - right[i]);
      whole += right[i] * right[i];
    }
    // Sums in float lose more than rounding them does where R is float.
    return off <= whole * std::pow(std::max(roundoff<R>, 0x1p-20), 2);
  }
};

/// Tiles go across samples: to the bit, it does not matter which.
template <Number N, class D>
void wmma_batch_is_its_samples(const bench_on<D>& at, const convolution_problem& p, int samples) {
  INFO(to_text(p), ", samples ", samples);
  const auto x = blocked<double>(random_numbers(size(samples) * p.in.size(), 1), p.in, samples,
                                 wmma::block<N>(p.in.channels));
  const auto master = at.template put_as<float>(random_numbers(p.weights(), 2));
  auto image = at.template put_as<N>(std::vector<double>(wmma::packed_size<N>(p), 99));
  wmma::pack<N>(p, master.span().data, image.span().data, at.s);
  const std::size_t each = x.size() / size(samples),
                    made = sample_size(p.out(), wmma::block<N>(p.filters));
  const auto fprop = [&](int first, int count) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(size(first) * each);
    const auto some = at.template put_as<N>(
        std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(size(count) * each)));
    auto y = at.template put_as<N>(std::vector<double>(size(count) * made, 99));
    wmma::fprop<N>(p, count, some.span().data, image.span().data, y.span().data, at.s);
    return at.numbers(y);
  };
  std::vector<double> joined;
  for (int sample = 0; sample < samples; ++sample) {
    const auto one = fprop(sample, 1);
    joined.insert(joined.end(), one.begin(), one.end());
  }
  CHECK(joined == fprop(0, samples));
}

/// All three directions.
template <Number N, class How = exactly, class D>
void wmma_is_the_definition(const bench_on<D>& at, const convolution_problem& p, int samples) {
  INFO(to_text(p), ", samples ", samples);
  const std::size_t n = size(samples);
  const auto draw = [](std::size_t n, std::uint64_t which) {
    return How::template draw<N>(n, which);
  };
  const auto x = draw(n * p.in.size(), 1), w = draw(p.weights(), 2),
             dy = draw(n * p.out().size(), 3), dx0 = draw(x.size(), 4), dw0 = draw(w.size(), 5);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y[iy] += w[iw] * x[ix];
    dx[ix] += w[iw] * dy[iy];
    dw[iw] += dy[iy] * x[ix];
  });

  const int v_in = wmma::block<N>(p.in.channels), v_out = wmma::block<N>(p.filters);
  const auto put = [&](const std::vector<double>& v, const extent& e, int v_of, double fill = 0) {
    return at.template put_as<N>(blocked<double>(v, e, samples, v_of, fill));
  };
  // What only fills a pixel is written as zero.
  const auto get = [&](const buffer<N, D>& there, const extent& e, int v_of) {
    const std::vector<double> found = at.numbers(there);
    CHECK(filling(found, e, samples, v_of) == 0);
    return plain(found, e, samples, v_of);
  };
  const auto master = at.template put_as<float>(w);
  auto image = at.template put_as<N>(std::vector<double>(wmma::packed_size<N>(p), 99));
  wmma::pack<N>(p, master.span().data, image.span().data, at.s);
  const N* const packed = image.span().data;
  const auto there_x = put(x, p.in, v_in), there_dy = put(dy, p.out(), v_out);

  auto there_y = put(std::vector<double>(dy.size(), 99), p.out(), v_out, 99);
  wmma::fprop<N>(p, samples, there_x.span().data, packed, there_y.span().data, at.s);
  CHECK(How::template same<N>(get(there_y, p.out(), v_out), y));

  auto there_dx = put(std::vector<double>(x.size(), 99), p.in, v_in, 99);
  const auto dgrad = [&](buffer<N, D>& to, into how) {
    wmma::dgrad<N>(p, samples, there_dy.span().data, packed, to.span().data, how, at.s);
    return get(to, p.in, v_in);
  };
  CHECK(How::template same<N>(dgrad(there_dx, into::overwrite), dx));
  there_dx = put(dx0, p.in, v_in);
  for (std::size_t i = 0; i < dx0.size(); ++i) dx[i] += dx0[i];
  CHECK(How::template same<N>(dgrad(there_dx, into::add), dx));

  auto there_dw = at.template put_as<float>(dw0);
  auto room = at.template put_as<N>(std::vector<double>(wmma::workspace<N>(p, samples, at.s), 99));
  const auto wgrad = [&](into how) {
    wmma::wgrad<N>(p, samples, there_x.span().data, there_dy.span().data, there_dw.span().data, how,
                   room.span().data, at.s);
    return at.numbers(there_dw);
  };
  std::vector<double> sum = dw;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dw0[i];
  CHECK(How::template same<float>(wgrad(into::add), sum));
  CHECK(How::template same<float>(wgrad(into::overwrite), dw));
}

}  // namespace support
