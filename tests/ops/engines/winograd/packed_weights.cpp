// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/packed_weights.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

// F(2, 3), and F(4, 3) of the points 0, 3/4, -3/4, 3/2, -3/2, for the columns of wide tiles.
constexpr double column[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double wide_row[6][3] = {{64. / 81, 0, 0},
                                   {-128. / 243, -32. / 81, -8. / 27},
                                   {-128. / 243, 32. / 81, -8. / 27},
                                   {32. / 243, 16. / 81, 8. / 27},
                                   {32. / 243, -16. / 81, 8. / 27},
                                   {0, 0, 1}};

/// Element e of the tile of g, of the window or of the window rotated by 180 degrees.
double element(int m, const double* g, int e, bool rotated) {
  // Not (m == 4 ? wide_row : column)[e % (m + 2)]: findings/gcc_ubsan_chosen_array.sh.
  const double(*const row)[3] = m == 4 ? wide_row : column;
  double sum = 0;
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s)
      sum +=
          column[e / (m + 2)][r] * row[e % (m + 2)][s] * g[rotated ? 8 - (3 * r + s) : 3 * r + s];
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("winograd_packed_weights: the elements of every window, rotated for dgrad", Real,
                   float, double) {
  constexpr int V = lanes<Real>;
  // Eight roundings of numbers up to 15, by rows whose magnitudes sum to at most 1.5 and 1.3.
  constexpr double bound = 8 * 15 * 1.5 * 1.3 * std::numeric_limits<Real>::epsilon() / 2;
  for (const convolution_problem& p : {convolution_problem{{V, 4, 4}, 2 * V, 3, 1, 1},
                                       {{V + 1, 4, 8}, V - 1, 3, 1, 1},
                                       {{3 * V, 4, 4}, V + 3, 3, 1, 1}}) {
    CAPTURE(p.in.channels);
    CAPTURE(p.filters);
    std::vector<double> w(p.weights());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i * 7 % 31) - 15;
    const std::vector<Real> master(w.begin(), w.end());
    const winograd_packed_weights<Real, V> weights(p);
    for (const int workers : {1, 3}) {
      const cpu device(workers);
      std::vector<Real> packed(weights.size(), Real{99});
      weights.pack(master.data(), packed.data(), device.make_stream());
      const Real* const packed_dgrad = packed.data() + weights.fprop.size();
      for (int k = 0; k < p.filters; ++k)
        for (int c = 0; c < p.in.channels; ++c)
          for (int e = 0; e < weights.fprop.elements; ++e) {
            const double* const g = w.data() + (k * p.in.channels + c) * 9;
            const auto at = [e](const winograd_weights<V>& direction, int output, int input) {
              return direction.at(static_cast<std::size_t>(output / V), input) + output % V +
                     e * direction.pitch();
            };
            CHECK(std::abs(packed[static_cast<std::size_t>(at(weights.fprop, k, c))] -
                           element(weights.m, g, e, false)) <= bound);
            CHECK(std::abs(packed_dgrad[at(weights.dgrad, c, k)] -
                           element(weights.m, g, e, true)) <= bound);
          }
      // Filters that pad a block are zero, so that their outputs are.
      for (int v = p.filters % V; v != 0 && v < V; ++v)
        CHECK(packed[static_cast<std::size_t>(
                  weights.fprop.at(static_cast<std::size_t>(p.filters / V), 0) + v)] == 0);
      for (int v = p.in.channels % V; v != 0 && v < V; ++v)
        CHECK(packed_dgrad[weights.dgrad.at(static_cast<std::size_t>(p.in.channels / V), 0) + v] ==
              0);
    }
  }
}
