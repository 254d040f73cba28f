// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Laws of the fully connected layer on any GPU device.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/linear.hpp>
#include <cordee/ops/gpu/linear.hpp>

#include "tests/support/device_fixture.hpp"

namespace support {

/// The three products on numbers whose sums are exact: the CPU's in double, rounded once. Sizes
/// around those of a tile; x with padding and without.
template <Number N, std::floating_point Real, class D>
void linear_is_the_cpus(const device_fixture<D>& at) {
  for (const cordee::detail::ops::linear_problem& p : {cordee::detail::ops::linear_problem{1, 1, 1},
                                                       {64, 10, 64},
                                                       {31, 33, 32},
                                                       {32, 5, 40},
                                                       {70, 65, 71}})
    for (const int samples : {0, 1, 35}) {
      INFO(p.features, " of ", p.stride, " -> ", p.outputs, ", samples ", samples);
      const auto n = static_cast<std::size_t>(samples);
      auto x = short_numbers<N>(n * p.stride, 1);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (i % p.stride >= p.features) x[i] = 0;
      const auto w = short_numbers<N>(p.outputs * p.features, 2),
                 b = short_numbers<N>(p.outputs, 3), dy = short_numbers<N>(n * p.outputs, 4),
                 dw0 = short_numbers<N>(w.size(), 5), db0 = short_numbers<N>(b.size(), 6);
      std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), db(b.size()), dw_sum(dw0),
          db_sum(db0);
      const cpu::stream host{};
      linear_forward(p, samples, x.data(), w.data(), b.data(), y.data(), host);
      linear_input_gradient(p, samples, dy.data(), w.data(), dx.data(), host);
      linear_weight_gradient(p, samples, x.data(), dy.data(), dw.data(), db.data(),
                             write_mode::overwrite, host);
      linear_weight_gradient(p, samples, x.data(), dy.data(), dw_sum.data(), db_sum.data(),
                             write_mode::add, host);

      const auto device_x = at.template put_as<N>(x), device_w = at.template put_as<N>(w),
                 device_dy = at.template put_as<N>(dy);
      const auto device_b = at.template put_as<Real>(b);
      auto device_y = at.template put_as<N>(std::vector<double>(y.size(), 99)),
           device_dx = at.template put_as<N>(std::vector<double>(dx.size(), 99));
      auto device_dw = at.template put_as<Real>(dw0), device_db = at.template put_as<Real>(db0);
      linear_forward(p, samples, device_x.span().data, device_w.span().data, device_b.span().data,
                     device_y.span().data, at.s);
      CHECK(at.numbers(device_y) == as<N>(y));
      linear_input_gradient(p, samples, device_dy.span().data, device_w.span().data,
                            device_dx.span().data, at.s);
      CHECK(at.numbers(device_dx) == as<N>(dx));
      const auto gradient = [&](write_mode mode) {
        linear_weight_gradient(p, samples, device_x.span().data, device_dy.span().data,
                               device_dw.span().data, device_db.span().data, mode, at.s);
      };
      gradient(write_mode::add);
      CHECK(at.numbers(device_dw) == dw_sum);
      CHECK(at.numbers(device_db) == db_sum);
      gradient(write_mode::overwrite);
      CHECK(at.numbers(device_dw) == dw);
      CHECK(at.numbers(device_db) == db);
    }
}

}  // namespace support
