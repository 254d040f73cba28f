// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What engine `cudnn` promises on any device that cuDNN computes on, be it the host.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/convolution.hpp>

#include "tests/support/engines.hpp"
#include "tests/support/stored.hpp"

namespace support {

/// Windows, strides and paddings; channels and filters that fill their pixels, and that do not.
inline constexpr convolution_problem dnn_shapes[] = {
    {{3, 9, 8}, 16, 3, 1, 1}, {{8, 5, 4}, 8, 3, 1, 1},  {{5, 6, 5}, 3, 3, 2, 1},
    {{16, 4, 5}, 9, 1, 1, 0}, {{8, 5, 4}, 16, 1, 2, 0}, {{3, 9, 8}, 4, 7, 2, 3},
    {{1, 1, 1}, 3, 3, 1, 1},  {{2, 7, 9}, 2, 3, 3, 0},  {{2, 4, 3}, 2, 2, 1, 2},
    {{4, 1, 1}, 17, 1, 1, 0},
};

/// A sum, and the sum of its products' magnitudes.
struct measured {
  explicit measured(std::size_t n) : value(n), magnitude(n) {}
  void add(std::size_t i, double x) {
    value[i] += x;
    magnitude[i] += std::abs(x);
  }
  std::vector<double> value, magnitude;
};

/// All three directions on numbers whose sums are exact in float. `same(found, sums)` says whether
/// a device's result is as good as it has to be.
template <class Engine, Number N, class D, class Same>
void cudnn_is_the_definition(const bench_on<D>& at, const convolution_problem& p, int samples,
                             const Same& same) {
  INFO(to_text(p), ", samples ", samples);
  const std::size_t n = size(samples);
  const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2),
             dy = short_numbers<N>(n * p.out().size(), 3), dx0 = short_numbers<N>(x.size(), 4),
             dw0 = short_numbers<N>(w.size(), 5);
  measured y(dy.size()), dx(x.size()), dw(w.size());
  each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y.add(iy, w[iw] * x[ix]);
    dx.add(ix, w[iw] * dy[iy]);
    dw.add(iw, dy[iy] * x[ix]);
  });

  const int v_in = Engine::template block<N>(p.in.channels);
  const int v_out = Engine::template block<N>(p.filters);
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
  auto image = at.template put_as<N>(std::vector<double>(Engine::template packed_size<N>(p), 99));
  Engine::template pack<N>(p, master.span().data, image.span().data, at.s);
  const N* const packed = image.span().data;
  const auto there_x = put(x, p.in, v_in), there_dy = put(dy, p.out(), v_out);

  auto there_y = put(std::vector<double>(dy.size(), 99), p.out(), v_out, 99);
  Engine::template fprop<N>(p, samples, there_x.span().data, packed, there_y.span().data, at.s);
  CHECK(same(get(there_y, p.out(), v_out), y));

  auto there_dx = put(std::vector<double>(x.size(), 99), p.in, v_in, 99);
  const auto dgrad = [&](buffer<N, D>& to, into how) {
    Engine::template dgrad<N>(p, samples, there_dy.span().data, packed, to.span().data, how, at.s);
    return get(to, p.in, v_in);
  };
  CHECK(same(dgrad(there_dx, into::overwrite), dx));
  there_dx = put(dx0, p.in, v_in);
  for (std::size_t i = 0; i < dx0.size(); ++i) dx.add(i, dx0[i]);
  CHECK(same(dgrad(there_dx, into::add), dx));

  auto there_dw = at.template put_as<float>(dw0);
  auto room = at.template put_as<N>(
      std::vector<double>(Engine::template workspace<N>(p, samples, at.s), 99));
  const auto wgrad = [&](into how) {
    Engine::template wgrad<N>(p, samples, there_x.span().data, there_dy.span().data,
                              there_dw.span().data, how, room.span().data, at.s);
    return at.numbers(there_dw);
  };
  // A gradient is rounded once to N, and added in float.
  const std::vector<double> added = wgrad(into::add);
  std::vector<double> alone = wgrad(into::overwrite);
  CHECK(same(alone, dw));
  for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = static_cast<float>(dw0[i] + alone[i]);
  CHECK(added == alone);
}

}  // namespace support
