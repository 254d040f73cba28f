// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What engine `wmma` promises of bytes, and of the gradients behind them, on any device with grids
// of whole warps.
#pragma once

#include <vector>

#include <cordee/ops/grid/wmma/bytes.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

#include "tests/support/byte_engines.hpp"

namespace support {

/// Windows, strides, paddings and tails, in all three tiles.
inline constexpr convolution_problem byte_shapes[] = {
    {{3, 9, 8}, 16, 3, 1, 1}, {{17, 5, 4}, 40, 3, 2, 1}, {{16, 4, 5}, 3, 1, 2, 0},
    {{3, 9, 8}, 4, 7, 2, 3},  {{2, 4, 3}, 2, 2, 1, 2},   {{40, 2, 3}, 72, 1, 1, 0},
};
inline constexpr convolution_problem byte_gradient_shapes[] = {
    {{3, 5, 4}, 17, 3, 1, 1}, {{20, 5, 4}, 9, 3, 2, 1}, {{9, 4, 5}, 3, 1, 2, 0}};

template <class D>
void byte_gradients_are_the_definitions(const bench_on<D>& at, const convolution_problem& p,
                                        int samples) {
  INFO(to_text(p), ", samples ", samples);
  // 255 steps of 1 / 128, and inputs on quarters of a step, some beyond the range.
  const affine<float> k = fit_affine(-127.0f / 128, 1.0f, unsigned_bytes);
  REQUIRE(k.scale == 0x1p-7f);
  random_sequence draw(8, purpose::test, 1, 0);
  std::vector<double> x(size(samples) * p.in.size()), left(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = draw.below(1400) / 512.0 - 1.35;
    left[i] = k.simulate(static_cast<float>(x[i]));
  }
  const auto w = short_numbers<bfloat>(p.weights(), 2), dw0 = short_numbers<bfloat>(w.size(), 3),
             dy = short_numbers<bfloat>(size(samples) * p.out().size(), 4),
             dx0 = short_numbers<bfloat>(x.size(), 5);
  std::vector<double> dx(x.size()), dw(w.size());
  each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    if (k.passes(static_cast<float>(x[ix]))) dx[ix] += w[iw] * dy[iy];
    dw[iw] += dy[iy] * left[ix];
  });
  const auto in_floats = [](std::vector<double> v) { return as<float>(std::move(v)); };
  const int in = wmma::block<float>(p.in.channels), out = wmma::block<float>(p.filters);
  const auto there_x = at.put(blocked<float>(x, p.in, samples, in)),
             there_dy = at.put(blocked<float>(dy, p.out(), samples, out)),
             there_w = at.template put_as<float>(w);
  const auto by = at.put(std::vector{k});
  auto packed = at.template put_as<bfloat>(std::vector<double>(wmma::packed_left(p), 99));
  wmma::pack_left(p, there_w.span().data, packed.span().data, at.s);
  for (const into how : {into::overwrite, into::add}) {
    auto to = at.put(blocked<float>(dx0, p.in, samples, in));
    auto to_w = at.template put_as<float>(dw0);
    const auto backward = [&](into mode, float* dx) {
      wmma::backward_bytes(p, samples, there_x.span().data, by.span().data, there_dy.span().data,
                           packed.span().data, to_w.span().data, mode, dx, how, at.s);
    };
    backward(how, to.span().data);
    auto wanted = dx, wanted_w = dw;
    for (std::size_t i = 0; how == into::add && i < dx.size(); ++i) wanted[i] += dx0[i];
    for (std::size_t i = 0; how == into::add && i < dw.size(); ++i) wanted_w[i] += dw0[i];
    const std::vector<float> found = at.get(to);
    CHECK(plain(found, p.in, samples, in) == wanted);
    CHECK(filling(found, p.in, samples, in) == 0);
    CHECK(at.numbers(to_w) == in_floats(wanted_w));
    backward(into::overwrite, nullptr);
    CHECK(at.numbers(to_w) == in_floats(dw));
  }
}

/// One pixel, of as many channels as its sum may have.
template <class D>
void the_largest_sums_do_not_saturate(const bench_on<D>& at) {
  const convolution_problem p{{257, 1, 1}, 1, 1, 1, 0};
  byte_harness<wmma, D> engine{p, 1, {1, 1, 0, unsigned_bytes}, at};
  CHECK(engine.template run<std::uint8_t, std::int32_t>(std::vector<double>(257, 255),
                                                        std::vector<std::int8_t>(257, 127),
                                                        {}) == std::vector{257.0 * 255 * 127});
}

}  // namespace support
