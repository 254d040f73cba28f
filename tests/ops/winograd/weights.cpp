// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/winograd/weights.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {

constexpr double G[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

/// Element e of G g G^T, of a window back to front if it is turned.
double element(const double* g, int e, bool turned) {
  double sum = 0;
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s)
      sum += G[e / 4][r] * G[e % 4][s] * g[turned ? 8 - (3 * r + s) : 3 * r + s];
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("winograd: the image has every window's elements, turned around for dgrad", Real,
                   float, double) {
  constexpr int V = lanes<Real>;
  for (const convolution_problem& p : {convolution_problem{{V, 4, 4}, 2 * V, 3, 1, 1},
                                       {{V + 1, 4, 4}, V - 1, 3, 1, 1},
                                       {{3 * V, 4, 4}, V + 3, 3, 1, 1}}) {
    CAPTURE(p.in.channels);
    CAPTURE(p.filters);
    std::vector<double> w(p.weights());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i * 7 % 31) - 15;
    const std::vector<Real> master(w.begin(), w.end());
    const winograd_image<Real, V> image(p);
    for (const int workers : {1, 3}) {
      const cpu device(workers);
      std::vector<Real> packed(image.size(), Real{99});
      image.pack(master.data(), packed.data(), device.open());
      const Real* const second = packed.data() + image.forwards.size();
      for (int k = 0; k < p.filters; ++k)
        for (int c = 0; c < p.in.channels; ++c)
          for (int e = 0; e < winograd_elements; ++e) {
            const double* const g = w.data() + (k * p.in.channels + c) * 9;
            const auto at = [e](const winograd_weights<Real, V>& of, int output, int input) {
              return of.at(static_cast<std::size_t>(output / V), input) + output % V +
                     e * of.pitch();
            };
            CHECK(packed[static_cast<std::size_t>(at(image.forwards, k, c))] ==
                  static_cast<Real>(element(g, e, false)));
            CHECK(second[at(image.back, c, k)] == static_cast<Real>(element(g, e, true)));
          }
      // Filters that only fill a block are zero, so that what they give is.
      for (int v = p.filters % V; v != 0 && v < V; ++v)
        CHECK(packed[static_cast<std::size_t>(
                  image.forwards.at(static_cast<std::size_t>(p.filters / V), 0) + v)] == 0);
      for (int v = p.in.channels % V; v != 0 && v < V; ++v)
        CHECK(second[image.back.at(static_cast<std::size_t>(p.in.channels / V), 0) + v] == 0);
    }
  }
}
