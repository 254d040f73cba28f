// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of engine `tensor_core` on any device with MmaBlock.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/engine.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/engines.hpp"

namespace support {

/// Windows, strides and paddings; channels and filters that are multiples of 16 bytes and not; all
/// three tiles, several tiles in each direction, and several splits of the pixels.
inline constexpr convolution_problem tensor_shapes[] = {
    {{3, 9, 8}, 16, 3, 1, 1},   {{8, 5, 4}, 8, 3, 1, 1},    {{5, 6, 5}, 3, 3, 2, 1},
    {{16, 4, 5}, 40, 1, 1, 0},  {{8, 5, 4}, 16, 1, 2, 0},   {{3, 9, 8}, 4, 7, 2, 3},
    {{1, 1, 1}, 3, 3, 1, 1},    {{2, 7, 9}, 2, 3, 3, 0},    {{2, 4, 3}, 2, 2, 1, 2},
    {{72, 3, 2}, 136, 1, 1, 0}, {{12, 19, 18}, 9, 3, 1, 1},
};

/// Numbers whose sums are exact in float: the result is the definition's, rounded once.
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
/// Numbers of N: the root mean square error is within a few roundings.
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
    // Where R is float the error of summation exceeds that of rounding.
    return off <= whole * std::pow(std::max(roundoff<R>, 0x1p-20), 2);
  }
};

/// A tile may contain pixels of several samples; the bits do not depend on it.
template <Number N, class D>
void tensor_core_batch_is_its_samples(const device_fixture<D>& at, const convolution_problem& p,
                                      int samples) {
  INFO(describe(p), ", samples ", samples);
  const auto x = nchw_to_blocked<double>(random_numbers(size(samples) * p.in.size(), 1), p.in,
                                         samples, tensor_core::block<N>(p.in.channels));
  const auto master = at.template put_as<float>(random_numbers(p.weights(), 2));
  auto weights = at.template put_as<N>(std::vector<double>(tensor_core::packed_size<N>(p), 99));
  tensor_core::pack<N>(p, master.span().data, weights.span().data, at.s);
  const std::size_t each = x.size() / size(samples), made = cordee::detail::ops::sample_size(
                                                         p.out(), tensor_core::block<N>(p.filters));
  const auto fprop = [&](int first, int count) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(size(first) * each);
    const auto some = at.template put_as<N>(
        std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(size(count) * each)));
    auto y = at.template put_as<N>(std::vector<double>(size(count) * made, 99));
    tensor_core::fprop<N>(p, count, some.span().data, weights.span().data, y.span().data, at.s);
    return at.numbers(y);
  };
  std::vector<double> joined;
  for (int sample = 0; sample < samples; ++sample) {
    const auto one = fprop(sample, 1);
    joined.insert(joined.end(), one.begin(), one.end());
  }
  CHECK(joined == fprop(0, samples));
}

/// fprop, dgrad, wgrad, and the last two together.
template <Number N, class Comparison = exactly, class D>
void tensor_core_is_the_definition(const device_fixture<D>& at, const convolution_problem& p,
                                   int samples) {
  INFO(describe(p), ", samples ", samples);
  const std::size_t n = size(samples);
  const auto draw = [](std::size_t n, std::uint64_t which) {
    return Comparison::template draw<N>(n, which);
  };
  const auto x = draw(n * p.in.size(), 1), w = draw(p.weights(), 2),
             dy = draw(n * p.out().size(), 3), dx0 = draw(x.size(), 4), dw0 = draw(w.size(), 5);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size());
  for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    y[iy] += w[iw] * x[ix];
    dx[ix] += w[iw] * dy[iy];
    dw[iw] += dy[iy] * x[ix];
  });

  const int v_in = tensor_core::block<N>(p.in.channels), v_out = tensor_core::block<N>(p.filters);
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
  auto weights = at.template put_as<N>(std::vector<double>(tensor_core::packed_size<N>(p), 99));
  tensor_core::pack<N>(p, master.span().data, weights.span().data, at.s);
  const N* const packed = weights.span().data;
  const auto device_x = put(x, p.in, v_in), device_dy = put(dy, p.out(), v_out);

  auto device_y = put(std::vector<double>(dy.size(), 99), p.out(), v_out, 99);
  tensor_core::fprop<N>(p, samples, device_x.span().data, packed, device_y.span().data, at.s);
  CHECK(Comparison::template same<N>(get(device_y, p.out(), v_out), y));

  auto device_dx = put(std::vector<double>(x.size(), 99), p.in, v_in, 99);
  const auto dgrad = [&](buffer<N, D>& to, write_mode mode) {
    tensor_core::dgrad<N>(p, samples, device_dy.span().data, packed, to.span().data, mode, at.s);
    return get(to, p.in, v_in);
  };
  CHECK(Comparison::template same<N>(dgrad(device_dx, write_mode::overwrite), dx));
  device_dx = put(dx0, p.in, v_in);
  for (std::size_t i = 0; i < dx0.size(); ++i) dx[i] += dx0[i];
  CHECK(Comparison::template same<N>(dgrad(device_dx, write_mode::add), dx));

  auto device_dw = at.template put_as<float>(dw0);
  auto workspace =
      at.template put_as<N>(std::vector<double>(tensor_core::workspace<N>(p, samples, at.s), 99));
  const auto wgrad = [&](write_mode mode) {
    tensor_core::wgrad<N>(p, samples, device_x.span().data, device_dy.span().data,
                          device_dw.span().data, mode, workspace.span().data, at.s);
    return at.numbers(device_dw);
  };
  std::vector<double> sum = dw;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dw0[i];
  CHECK(Comparison::template same<float>(wgrad(write_mode::add), sum));
  CHECK(Comparison::template same<float>(wgrad(write_mode::overwrite), dw));

  // Both gradients together have the bits that they have by themselves.
  for (const bool adds : {false, true}) {
    const write_mode mode = adds ? write_mode::add : write_mode::overwrite;
    const write_mode other = adds ? write_mode::overwrite : write_mode::add;
    device_dx = put(dx0, p.in, v_in);
    const auto wanted_dx = dgrad(device_dx, mode);
    device_dw = at.template put_as<float>(dw0);
    const auto wanted_dw = wgrad(other);
    device_dx = put(dx0, p.in, v_in);
    device_dw = at.template put_as<float>(dw0);
    tensor_core::backward<N>(p, samples, device_x.span().data, device_dy.span().data, packed,
                             device_dw.span().data, other, workspace.span().data,
                             device_dx.span().data, mode, at.s);
    CHECK(get(device_dx, p.in, v_in) == wanted_dx);
    CHECK(at.numbers(device_dw) == wanted_dw);
  }
}

}  // namespace support
