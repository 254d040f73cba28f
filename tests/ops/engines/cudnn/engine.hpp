// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of engine `cudnn` on any device, with cuDNN or its double.
#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/engine.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/engines.hpp"

namespace support {

/// Windows, strides and paddings; channels and filters that are multiples of 16 bytes and not.
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

/// fprop, dgrad and wgrad on numbers whose sums are exact in float. `same(found, sums)` returns
/// whether a result is accurate enough.
template <class Engine, Number N, class D, class Same>
void cudnn_is_the_definition(const device_fixture<D>& at, const convolution_problem& p, int samples,
                             const Same& same) {
  INFO(describe(p), ", samples ", samples);
  const std::size_t n = size(samples);
  const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2),
             dy = short_numbers<N>(n * p.out().size(), 3), dx0 = short_numbers<N>(x.size(), 4),
             dw0 = short_numbers<N>(w.size(), 5);
  measured y(dy.size()), dx(x.size()), dw(w.size());
  for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y.add(iy, w[iw] * x[ix]);
    dx.add(ix, w[iw] * dy[iy]);
    dw.add(iw, dy[iy] * x[ix]);
  });

  const int v_in = Engine::template block<N>(p.in.channels);
  const int v_out = Engine::template block<N>(p.filters);
  const auto put = [&](const std::vector<double>& v, const extent& e, int v_of, double fill = 0) {
    return at.template put_as<N>(nchw_to_blocked<double>(v, e, samples, v_of, fill));
  };
  // Padded channels are written as zero.
  const auto get = [&](const buffer<N, D>& there, const extent& e, int v_of) {
    const std::vector<double> found = at.numbers(there);
    CHECK(padding_magnitude(found, e, samples, v_of) == 0);
    return plain(found, e, samples, v_of);
  };
  const auto master = at.template put_as<float>(w);
  auto weights = at.template put_as<N>(std::vector<double>(Engine::template packed_size<N>(p), 99));
  Engine::template pack<N>(p, master.span().data, weights.span().data, at.s);
  const N* const packed = weights.span().data;
  const auto device_x = put(x, p.in, v_in), device_dy = put(dy, p.out(), v_out);

  auto device_y = put(std::vector<double>(dy.size(), 99), p.out(), v_out, 99);
  Engine::template fprop<N>(p, samples, device_x.span().data, packed, device_y.span().data, at.s);
  CHECK(same(get(device_y, p.out(), v_out), y));

  auto device_dx = put(std::vector<double>(x.size(), 99), p.in, v_in, 99);
  const auto dgrad = [&](buffer<N, D>& to, write_mode mode) {
    Engine::template dgrad<N>(p, samples, device_dy.span().data, packed, to.span().data, mode,
                              at.s);
    return get(to, p.in, v_in);
  };
  CHECK(same(dgrad(device_dx, write_mode::overwrite), dx));
  device_dx = put(dx0, p.in, v_in);
  for (std::size_t i = 0; i < dx0.size(); ++i) dx.add(i, dx0[i]);
  CHECK(same(dgrad(device_dx, write_mode::add), dx));

  auto device_dw = at.template put_as<float>(dw0);
  auto workspace = at.template put_as<N>(
      std::vector<double>(Engine::template workspace<N>(p, samples, at.s), 99));
  const auto wgrad = [&](write_mode mode) {
    Engine::template wgrad<N>(p, samples, device_x.span().data, device_dy.span().data,
                              device_dw.span().data, mode, workspace.span().data, at.s);
    return at.numbers(device_dw);
  };
  // The weight gradient is rounded once to N and added in float.
  const std::vector<double> added = wgrad(write_mode::add);
  std::vector<double> alone = wgrad(write_mode::overwrite);
  CHECK(same(alone, dw));
  for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = static_cast<float>(dw0[i] + alone[i]);
  CHECK(added == alone);
}

}  // namespace support
