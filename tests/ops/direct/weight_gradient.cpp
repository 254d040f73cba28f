// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Groups, passes and bands of the sum over samples; its value on small images is
// ops/convolution.cpp's.
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class R, int Bytes>
struct width_of {
  using real = R;
  static constexpr int bytes = Bytes;
  static constexpr int V = Bytes / static_cast<int>(sizeof(R));
  using gradient = detail::weight_gradient<R, V>;
};
#define WIDTHS                                                                \
  width_of<float, 16>, width_of<float, register_bytes>, width_of<double, 16>, \
      width_of<double, register_bytes>

}  // namespace

TEST_CASE_TEMPLATE(
    "weight_gradient: as many groups of samples as make eight tasks, each with sums "
    "where there are several",
    W, WIDTHS) {
  for (const int window : {1, 3})
    for (const int filters : {1, W::V, 4 * W::V, 33, 64 * W::V}) {
      const convolution_problem p{{16, 8, 8}, filters, window, 1, window / 2};
      const detail::packed_form<W::V> form{filters, 16, window};
      const int blocks = window == 3 ? 2 : detail::filter_blocks<typename W::real, W::V>;
      const int sets = (filters + blocks * W::V - 1) / (blocks * W::V);
      for (const int samples : {0, 1, 2, 7, 8, 9, 1000}) {
        const int groups = std::clamp(samples, 1, std::max(1, 8 / sets));
        CHECK(typename W::gradient(p).groups(samples) == groups);
        CHECK(typename W::gradient(p).workspace(samples) ==
              (groups > 1 ? static_cast<std::size_t>(groups) * form.size() : 0));
      }
    }
}

TEST_CASE_TEMPLATE("weight_gradient: behind a stride a lone tap's pixels find room too", W,
                   WIDTHS) {
  const typename W::gradient gradient(convolution_problem{{16, 7, 8}, 33, 1, 2, 0});
  const detail::packed_form<W::V> form{33, 16, 1};
  for (const int samples : {0, 1, 7}) {
    const int groups = gradient.groups(samples);
    CHECK(gradient.workspace(samples) ==
          (groups > 1 ? static_cast<std::size_t>(groups) * form.size() : 0) +
              static_cast<std::size_t>(samples) * 16 * 4 * 4);
  }
}

TEST_CASE_TEMPLATE("weight_gradient: every sample counts once, however they fall into groups", W,
                   WIDTHS) {
  // Tiny images: many of them in one pass. Whole numbers: every order of the sum is exact.
  using Real = typename W::real;
  for (const convolution_problem& p : {convolution_problem{{16, 2, 2}, 33, 3, 1, 1},
                                       {{5, 3, 2}, 16, 1, 1, 0},
                                       {{5, 3, 3}, 33, 1, 1, 0},
                                       {{5, 5, 4}, 33, 1, 2, 0},
                                       {{3, 3, 3}, 17, 3, 2, 1},
                                       {{17, 2, 3}, 3, 3, 1, 1}})
    for (const int samples : {1, 2, 7, 8, 9, 15, 16, 17, 63, 200}) {
      CAPTURE(to_text(p));
      CAPTURE(samples);
      const std::size_t n = size(samples);
      std::vector<double> x(n * p.in.size()), dy(n * p.out().size()), dw(p.weights());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 7 % 5) - 2;
      for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i * 11 % 7) - 3;
      each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        dw[iw] += x[ix] * dy[iy];
      });
      harness<direct_on<W::bytes>, Real> engine{p, samples};
      CHECK(engine.wgrad(x, dy) == dw);
      std::vector<double> before(dw.size(), 5), more = dw;
      for (double& g : more) g += 5;
      CHECK(engine.wgrad(x, dy, before) == more);
    }
}

TEST_CASE_TEMPLATE("weight_gradient: images in several bands are summed like those in one", W,
                   WIDTHS) {
  using Real = typename W::real;
  for (const convolution_problem& p : {convolution_problem{{16, 40, 48}, 64, 3, 1, 1},
                                       {{16, 41, 65}, 64, 3, 2, 1},
                                       {{16, 30, 70}, 32, 5, 1, 2},
                                       {{16, 33, 64}, 16, 3, 1, 1},
                                       {{3, 40, 90}, 64, 7, 2, 3},
                                       {{3, 60, 250}, 17, 7, 2, 3},
                                       {{32, 33, 33}, 32, 1, 2, 0}}) {
    CAPTURE(to_text(p));
    const int samples = 3;
    const auto x = random_numbers(3 * p.in.size(), 1), dy = random_numbers(3 * p.out().size(), 2);
    sums<Real> dw(p.weights());
    each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      dw.add(iw, dy[iy] * x[ix]);
    });
    CHECK(dw.error_of(harness<direct_on<W::bytes>, Real>{p, samples}.wgrad(x, dy)) == 0);
  }
}

TEST_CASE_TEMPLATE("weight_gradient: what stood in the workspace does not matter", W, WIDTHS) {
  using Real = typename W::real;
  for (const convolution_problem& p :
       {convolution_problem{{16, 8, 8}, 33, 3, 1, 1}, {{3, 8, 8}, 17, 3, 1, 1}}) {
    const typename W::gradient gradient(p);
    const int samples = 11;
    const std::vector<Real> x(11 * sample_size(p.in, detail::direct_block<W::V>(p.in.channels)),
                              Real{1}),
        dy(11 * sample_size(p.out(), detail::direct_block<W::V>(p.filters)), Real{1});
    std::vector<Real> dw(p.weights());
    std::vector<Real> memory(gradient.workspace(samples), std::numeric_limits<Real>::quiet_NaN());
    gradient.run(samples, x.data(), dy.data(), dw.data(), into::overwrite, memory.data(), {});
    // Each tap sums over the pixels that it meets: 8 or 7 rows by 8 or 7 columns.
    for (std::size_t i = 0; i < dw.size(); ++i) {
      const std::size_t r = i / 3 % 3, s = i % 3;
      CHECK(dw[i] == static_cast<Real>(11 * (r == 1 ? 8 : 7) * (s == 1 ? 8 : 7)));
    }
  }
}
