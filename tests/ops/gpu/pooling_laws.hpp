// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Pooling and subsampling on any device, compared with the CPU's in double on the same numbers in
// NCHW.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/ops/gpu/pooling.hpp>

#include "tests/support/device_vectors.hpp"

namespace support {

template <Number N, class D>
struct pooling_fixture {
  D device;
  int samples;
  typename D::stream s = device.make_stream();

  [[nodiscard]] std::size_t numbers(const extent& e) const {
    return static_cast<std::size_t>(samples) * e.size();
  }
  [[nodiscard]] device_vector<N, D> sent(const std::vector<double>& plain, const extent& e,
                                         int V) const {
    return {device, s, to_storage<N>(to_blocked(plain, e, V))};
  }
  [[nodiscard]] device_vector<N, D> room(const extent& e, int V) const {
    return sent(std::vector<double>(numbers(e), 7.0), e, V);
  }
  /// The mean of p numbers: p roundings of the sum in wide, then those of the quotient and of N.
  void same(device_vector<N, D>& out, const std::vector<double>& want, const extent& e, int V,
            std::size_t summands) const {
    const auto blocks = to_doubles(out.read());
    const auto wide_roundings =
        static_cast<double>(summands) * roundoff<cordee::detail::precision::wide<N>>;
    CHECK(max_error_ratio(from_blocked(blocks, e, V), want, summands > 0 ? roundoff<N> : 0,
                          summands > 0 ? 8 * wide_roundings : 1e-300) <= 1);
    CHECK(padding_is_zero(blocks, e, V));
  }

  template <int V>
  void average(const extent& in) const {
    INFO("average pool, ", describe(in), ", V ", V, ", samples ", samples);
    const extent out{in.channels, 1, 1};
    const auto x = representable_normals<N>(numbers(in), 1),
               dy = representable_normals<N>(numbers(out), 2);
    std::vector<double> y(dy.size()), dx(x.size());
    average_pool_forward<double, 1>(in, samples, x.data(), y.data(), cpu::stream{});
    average_pool_backward<double, 1>(in, samples, dy.data(), dx.data(), cpu::stream{});
    auto from = sent(x, in, V), to = room(out, V);
    average_pool_forward<N, V>(in, samples, from.data(), to.data(), s);
    same(to, y, out, V, in.pixels());
    auto back = sent(dy, out, V), gradient = room(in, V);
    average_pool_backward<N, V>(in, samples, back.data(), gradient.data(), s);
    same(gradient, dx, in, V, 1);
  }
  template <int VX, int VY>
  void subsample(const cordee::detail::ops::subsample_problem& at) const {
    INFO("subsample, ", describe(at.in), ", V ", VX, " and ", VY, ", samples ", samples);
    const auto x = representable_normals<N>(numbers(at.in), 1),
               dy = representable_normals<N>(numbers(at.out), 2);
    std::vector<double> y(dy.size()), dx(x.size());
    subsample_forward<double, 1, 1>(at, samples, x.data(), y.data(), cpu::stream{});
    subsample_backward<double, 1, 1>(at, samples, dy.data(), dx.data(), cpu::stream{});
    auto from = sent(x, at.in, VX), to = room(at.out, VY);
    subsample_forward<N, VX, VY>(at, samples, from.data(), to.data(), s);
    same(to, y, at.out, VY, 0);
    auto back = sent(dy, at.out, VY), gradient = room(at.in, VX);
    subsample_backward<N, VX, VY>(at, samples, back.data(), gradient.data(), s);
    same(gradient, dx, at.in, VX, 0);
  }
  /// x as given, in NCHW. Multiples of 1/16 are exact in every precision, and so are their sums.
  template <int V>
  void maximum(const cordee::detail::ops::max_pool_problem& at,
               const std::vector<double>& x) const {
    INFO("max pool, ", describe(at.in), ", window ", at.window, ", stride ", at.stride, ", V ", V,
         ", samples ", samples);
    const extent out = at.out();
    auto dy = representable_normals<N>(numbers(out), 2),
         onto = representable_normals<N>(x.size(), 3);
    for (auto* many : {&dy, &onto})
      for (double& one : *many) one = std::round(2 * one) / 16;
    std::vector<double> y(dy.size());
    std::vector<std::uint8_t> where(dy.size());
    max_pool_forward<double, 1>(at, samples, x.data(), y.data(), where.data(), cpu::stream{});
    auto from = sent(x, at.in, V), to = room(out, V), back = sent(dy, out, V);
    const auto places = to_blocked(where, out, V);
    device_vector<std::uint8_t, D> taps(device, s, std::vector<std::uint8_t>(places.size(), 255));
    max_pool_forward<N, V>(at, samples, from.data(), to.data(), taps.data(), s);
    same(to, y, out, V, 0);
    CHECK(from_blocked(taps.read(), out, V) == where);
    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      auto dx = onto;
      max_pool_backward<double, 1>(at, samples, dy.data(), where.data(), dx.data(), mode,
                                   cpu::stream{});
      auto gradient = sent(onto, at.in, V);
      max_pool_backward<N, V>(at, samples, back.data(), taps.data(), gradient.data(), mode, s);
      same(gradient, dx, at.in, V, 0);
    }
  }
  template <int V>
  void maximum(const cordee::detail::ops::max_pool_problem& at) const {
    auto x = representable_normals<N>(numbers(at.in), 1);
    for (double& one : x) one = std::round(2 * one) / 16;  // many equal values
    maximum<V>(at, x);
  }
};

template <Number N, class D>
void check_pooling(const D& device) {
  for (const int samples : {0, 1, 3}) {
    const pooling_fixture<N, D> on{device, samples};
    for (const extent& e : {extent{5, 3, 4}, extent{16, 7, 7}, extent{17, 1, 1}}) {
      on.template average<1>(e);
      on.template average<8>(e);
      on.template average<24>(e);
    }
    for (const auto& at :
         {cordee::detail::ops::subsample_problem{{6, 7, 4}, {12, 4, 2}},
          cordee::detail::ops::subsample_problem{{16, 5, 6}, {32, 3, 3}},
          cordee::detail::ops::subsample_problem{{4, 7, 7}, {4, 3, 3}, 3},  // y does not cover x
          cordee::detail::ops::subsample_problem{{3, 4, 5}, {9, 4, 5}, 1}}) {
      on.template subsample<1, 1>(at);
      on.template subsample<8, 8>(at);
      on.template subsample<16, 32>(at);
      on.template subsample<4, 8>(at);
    }
    for (const auto& at : {cordee::detail::ops::max_pool_problem{{5, 8, 8}, 3, 2, 1},
                           cordee::detail::ops::max_pool_problem{{16, 7, 9}, 3, 2, 1},
                           cordee::detail::ops::max_pool_problem{{17, 5, 4}, 2, 2, 0},
                           cordee::detail::ops::max_pool_problem{{3, 6, 5}, 3, 1, 1},
                           cordee::detail::ops::max_pool_problem{{2, 9, 7}, 5, 3, 2},
                           cordee::detail::ops::max_pool_problem{{1, 1, 1}, 3, 2, 1},
                           cordee::detail::ops::max_pool_problem{{4, 2, 1}, 3, 2, 1},
                           cordee::detail::ops::max_pool_problem{{2, 5, 11}, 2, 3, 1},
                           cordee::detail::ops::max_pool_problem{{2, 9, 9}, 1, 2, 0},
                           cordee::detail::ops::max_pool_problem{{3, 17, 18}, 16, 1, 8}}) {
      on.template maximum<1>(at);
      on.template maximum<8>(at);
      on.template maximum<24>(at);
    }
  }
}

}  // namespace support
