// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The passes by themselves; optimizers.cu tests those of optimizers.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/ops/gpu/segmented.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

/// x <- by[k] x, and returns it.
struct scaling {
  float* x;
  const double* by;
  float own = 1;

  CORDEE_HOST_DEVICE scaling for_segment(kind, std::size_t k) const {
    return {x, by, static_cast<float>(by[k])};
  }
  template <class At>
  constexpr typename At::number operator()(At at) const {
    const typename At::number scaled = own * at(x);
    at.put(x, scaled);
    return scaled;
  }
};

}  // namespace

TEST_CASE("segmented on a GPU: passes over tables of several parts, and their sums of squares") {
  std::vector<segment> table;
  std::size_t n = 0;
  for (std::size_t k = 0; k < 300; ++k) {
    table.push_back({"", kind::weight, n, k % 50 == 49 ? 20000 + k : k % 7});
    n += detail::core::align_up(table.back().size);
  }
  std::vector<float> x(n);
  std::vector<double> by(table.size()), expected(table.size()), squares(table.size());
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 101) - 50;
  for (std::size_t k = 0; k < by.size(); ++k) by[k] = 1 + static_cast<double>(k % 5) / 8;

  const gpu device;
  const auto s = device.make_stream();
  buffer<float, gpu> there(device, n);
  buffer<double, gpu> factors(device, by.size()), sums(device, by.size());
  device.copy(there.span().data, x.data(), n * sizeof(float), s);
  device.copy(factors.span().data, by.data(), by.size() * sizeof(double), s);
  segmented_squares<float>(s, table, scaling{there.span().data, factors.span().data}, sums.span());
  std::vector<float> back(n);
  device.copy(back.data(), there.span().data, n * sizeof(float), s);
  device.copy(squares.data(), sums.span().data, by.size() * sizeof(double), s);
  device.finish(s);

  segmented_squares<float>(cpu::stream{}, table, scaling{x.data(), by.data()},
                           {expected.data(), expected.size()});
  CHECK(back == x);
  for (std::size_t k = 0; k < by.size(); ++k)
    CHECK(std::abs(squares[k] - expected[k]) <= 1e-14 * expected[k]);

  segmented_for<float>(s, table, scaling{there.span().data, factors.span().data});
  std::vector<float> y(n);
  for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(i % 89) - 40;
  buffer<float, gpu> other(device, n);
  buffer<double, gpu> of_other(device, by.size());
  device.copy(other.span().data, y.data(), n * sizeof(float), s);
  segmented_squares<float>(s, table, there.span(), sums.span(), other.span(), of_other.span());
  device.copy(squares.data(), sums.span().data, by.size() * sizeof(double), s);
  std::vector<double> second(squares.size());
  device.copy(second.data(), of_other.span().data, by.size() * sizeof(double), s);
  device.finish(s);
  segmented_for<float>(cpu::stream{}, table, scaling{x.data(), by.data()});
  std::vector<double> expected_second(by.size());
  segmented_squares<float>(cpu::stream{}, table, {x.data(), n}, {expected.data(), by.size()},
                           {y.data(), n}, {expected_second.data(), by.size()});
  for (std::size_t k = 0; k < by.size(); ++k) {
    CHECK(std::abs(squares[k] - expected[k]) <= 1e-14 * expected[k]);
    CHECK(std::abs(second[k] - expected_second[k]) <= 1e-14 * expected_second[k]);
  }
}
