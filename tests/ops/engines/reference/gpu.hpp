// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of engine `reference` on any GPU device.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/reference/gpu.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/engines.hpp"

namespace support {

/// Every kind of window, stride and padding, tails, one pixel, sizes that the stride does not
/// divide, and more rows than a warp has threads.
inline constexpr convolution_problem few_shapes[] = {
    {{3, 5, 4}, 5, 3, 1, 1},  {{2, 6, 5}, 3, 3, 2, 1}, {{5, 4, 5}, 3, 1, 1, 0},
    {{5, 5, 4}, 2, 1, 2, 0},  {{3, 9, 8}, 2, 7, 2, 3}, {{1, 1, 1}, 3, 3, 1, 1},
    {{2, 7, 9}, 2, 3, 3, 0},  {{2, 4, 3}, 2, 2, 1, 2}, {{4, 1, 1}, 17, 1, 1, 0},
    {{1, 13, 2}, 2, 3, 1, 1},
};

/// Whether run(x, w, y) writes the definition's y.
template <Number N, class D, class Run>
bool fprop_is_the_definition(const device_fixture<D>& at, const convolution_problem& p, int samples,
                             const Run& run) {
  const std::size_t n = size(samples);
  const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2);
  std::vector<double> y(n * p.out().size());
  for_each_product(p, samples,
                   [&](std::size_t iw, std::size_t ix, std::size_t iy) { y[iy] += w[iw] * x[ix]; });
  auto device_x = at.template put_as<N>(x), device_w = at.template put_as<N>(w),
       device_y = at.template put_as<N>(std::vector<double>(y.size(), 99));
  run(device_x.span().data, device_w.span().data, device_y.span().data);
  return at.numbers(device_y) == as<N>(y);
}

/// fprop, dgrad and wgrad on numbers whose sums are exact: the definition's, rounded once.
template <Number N, std::floating_point Real, class D>
void reference_is_the_definition(const device_fixture<D>& at) {
  for (const convolution_problem& p : few_shapes)
    for (const int samples : {0, 1, 3}) {
      INFO(describe(p), ", samples ", samples);
      const std::size_t n = size(samples);
      const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2),
                 dy = short_numbers<N>(n * p.out().size(), 3), dx0 = short_numbers<N>(x.size(), 4),
                 dw0 = short_numbers<N>(w.size(), 5);
      std::vector<double> dx(x.size()), dw(w.size());
      for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        dx[ix] += w[iw] * dy[iy];
        dw[iw] += dy[iy] * x[ix];
      });

      const auto master = at.template put_as<Real>(w);
      auto weights = at.template put_as<N>(std::vector<double>(w.size(), 99));
      reference::pack<N>(p, master.span().data, weights.span().data, at.s);
      CHECK(at.numbers(weights) == as<N>(w));
      const N* const packed = weights.span().data;
      const auto device_x = at.template put_as<N>(x), device_dy = at.template put_as<N>(dy);

      const auto fprop = [&](const N* in, const N* weights, N* out) {
        reference::fprop<N>(p, samples, in, weights, out, at.s);
      };
      CHECK(fprop_is_the_definition<N>(at, p, samples, fprop));

      auto device_dx = at.template put_as<N>(dx0);
      const auto dgrad = [&](write_mode mode) {
        reference::dgrad<N>(p, samples, device_dy.span().data, packed, device_dx.span().data, mode,
                            at.s);
        return at.numbers(device_dx);
      };
      std::vector<double> sum = dx;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = as<N>(dx0[i] + dx[i]);
      CHECK(dgrad(write_mode::add) == sum);
      CHECK(dgrad(write_mode::overwrite) == as<N>(dx));

      auto device_dw = at.template put_as<Real>(dw0);
      const auto wgrad = [&](write_mode mode) {
        reference::wgrad<N>(p, samples, device_x.span().data, device_dy.span().data,
                            device_dw.span().data, mode, static_cast<N*>(nullptr), at.s);
        return at.numbers(device_dw);
      };
      sum = dw;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = dw0[i] + dw[i];
      CHECK(wgrad(write_mode::add) == sum);
      CHECK(wgrad(write_mode::overwrite) == dw);
    }
}

}  // namespace support
