// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/batch_norm_kernels.hpp>

#include "tests/support/device_vectors.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

namespace {

/// Rows of one vector of channels with given x and saved coefficients; forward, then backward
/// without y.
template <Number N>
struct masked_rows {
  using real = wide<N>;
  static constexpr int size = vec_16b<N>::size;
  std::vector<N> x, y, dy, dx;
  std::vector<real> saved, beta;
  batch_norm_tiles tiling;

  masked_rows(const std::vector<double>& numbers, real mean, real scale, real shift)
      : x(to_storage<N>(numbers)),
        y(x.size()),
        dy(x.size(), nearest<N>(1)),
        dx(x.size()),
        saved(5 * size, real{0}),
        beta(size, shift),
        tiling({{size, static_cast<int>(x.size()) / size, 1}, 0}, 1, size, size) {
    const batch_norm_coefficients<real> row(saved.data(), size, 0);
    for (int c = 0; c < size; ++c) {
      row.mean[c] = mean;
      row.scale[c] = scale;
      row.inv_std[c] = 1;
    }
  }
  void run() {
    const auto s = emulated().make_stream();
    s.launch_kernel(
        tiling.blocks(),
        normalize_kernel<epilogue::relu, N, size, real>{
            tiling, {x.data(), y.data(), nullptr, beta.data(), saved.data(), nullptr}, nullptr});
    s.launch_kernel(tiling.blocks(),
                    input_gradient_kernel<epilogue::relu, N, size, real>{
                        tiling,
                        {x.data(), nullptr, nullptr, beta.data(), saved.data(), nullptr},
                        dy.data(),
                        dx.data()});
  }
};

}  // namespace

// With shift and slope 0, dx is the scale where the gradient passes and 0 where it is masked.
TEST_CASE_TEMPLATE("batch_norm_kernels: backward finds the sign of y from x alone, to the bit", N,
                   EMULATED_NUMBERS) {
  using real = wide<N>;
  // Means around which x - mean is exact, or cancels but for a bit; scales by which a positive y
  // rounds to zero in N; a beta that all but cancels.
  const real least = std::numeric_limits<real>::min();
  struct coefficients {
    real mean, scale, beta;
  };
  for (const auto& [mean, scale, beta] : {coefficients{0, 1, 0},
                                          {real(1) / 3, real(1.7), real(-0.1)},
                                          {real(0.5), real(1e-7), 0},
                                          {real(0.25), real(-3), real(0.7)},
                                          {real(0.1), least, 0},
                                          {0, real(1) / 3, -real(1) / 3}}) {
    auto numbers = representable_normals<N>(4096, 1);
    numbers[0] = std::nan("");
    numbers[1] = HUGE_VAL;
    numbers[2] = -HUGE_VAL;
    numbers[3] = to_double(nearest<N>(static_cast<double>(mean)));
    numbers[4] = 1;
    masked_rows<N> rows(numbers, mean, scale, beta);
    rows.run();
    std::size_t positive = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const bool passes = to_double(rows.y[i]) > 0;
      positive += passes;
      if (std::isfinite(numbers[i]))
        CHECK(to_double(rows.dx[i]) == (passes ? to_double(rounded<N>(scale)) : 0.0));
    }
    CHECK(positive < numbers.size());
  }
}
