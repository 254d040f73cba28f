// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What engine `reference` promises on any device with grids.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/convolution_reference.hpp>

#include "tests/support/engines.hpp"
#include "tests/support/stored.hpp"

namespace support {

/// Every class of window, stride and padding, tails, one pixel, sides that no stride divides, and
/// more rows than a warp has threads.
inline constexpr convolution_problem few_shapes[] = {
    {{3, 5, 4}, 5, 3, 1, 1},  {{2, 6, 5}, 3, 3, 2, 1}, {{5, 4, 5}, 3, 1, 1, 0},
    {{5, 5, 4}, 2, 1, 2, 0},  {{3, 9, 8}, 2, 7, 2, 3}, {{1, 1, 1}, 3, 3, 1, 1},
    {{2, 7, 9}, 2, 3, 3, 0},  {{2, 4, 3}, 2, 2, 1, 2}, {{4, 1, 1}, 17, 1, 1, 0},
    {{1, 13, 2}, 2, 3, 1, 1},
};

/// Whether run(x, w, y) leaves in y what the definition says.
template <Number N, class D, class Run>
bool fprop_is_the_definition(const bench_on<D>& at, const convolution_problem& p, int samples,
                             const Run& run) {
  const std::size_t n = size(samples);
  const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2);
  std::vector<double> y(n * p.out().size());
  each_product(p, samples,
               [&](std::size_t iw, std::size_t ix, std::size_t iy) { y[iy] += w[iw] * x[ix]; });
  auto there_x = at.template put_as<N>(x), there_w = at.template put_as<N>(w),
       there_y = at.template put_as<N>(std::vector<double>(y.size(), 99));
  run(there_x.span().data, there_w.span().data, there_y.span().data);
  return at.numbers(there_y) == as<N>(y);
}

/// All three directions on numbers whose sums are exact: the definition's, rounded once.
template <Number N, std::floating_point Real, class D>
void reference_is_the_definition(const bench_on<D>& at) {
  for (const convolution_problem& p : few_shapes)
    for (const int samples : {0, 1, 3}) {
      INFO(to_text(p), ", samples ", samples);
      const std::size_t n = size(samples);
      const auto x = short_numbers<N>(n * p.in.size(), 1), w = short_numbers<N>(p.weights(), 2),
                 dy = short_numbers<N>(n * p.out().size(), 3), dx0 = short_numbers<N>(x.size(), 4),
                 dw0 = short_numbers<N>(w.size(), 5);
      std::vector<double> dx(x.size()), dw(w.size());
      each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        dx[ix] += w[iw] * dy[iy];
        dw[iw] += dy[iy] * x[ix];
      });

      const auto master = at.template put_as<Real>(w);
      auto image = at.template put_as<N>(std::vector<double>(w.size(), 99));
      reference::pack<N>(p, master.span().data, image.span().data, at.s);
      CHECK(at.numbers(image) == as<N>(w));
      const N* const packed = image.span().data;
      const auto there_x = at.template put_as<N>(x), there_dy = at.template put_as<N>(dy);

      const auto fprop = [&](const N* in, const N* weights, N* out) {
        reference::fprop<N>(p, samples, in, weights, out, at.s);
      };
      CHECK(fprop_is_the_definition<N>(at, p, samples, fprop));

      auto there_dx = at.template put_as<N>(dx0);
      const auto dgrad = [&](into how) {
        reference::dgrad<N>(p, samples, there_dy.span().data, packed, there_dx.span().data, how,
                            at.s);
        return at.numbers(there_dx);
      };
      std::vector<double> sum = dx;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = as<N>(dx0[i] + dx[i]);
      CHECK(dgrad(into::add) == sum);
      CHECK(dgrad(into::overwrite) == as<N>(dx));

      auto there_dw = at.template put_as<Real>(dw0);
      const auto wgrad = [&](into how) {
        reference::wgrad<N>(p, samples, there_x.span().data, there_dy.span().data,
                            there_dw.span().data, how, static_cast<N*>(nullptr), at.s);
        return at.numbers(there_dw);
      };
      sum = dw;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = dw0[i] + dw[i];
      CHECK(wgrad(into::add) == sum);
      CHECK(wgrad(into::overwrite) == dw);
    }
}

}  // namespace support
