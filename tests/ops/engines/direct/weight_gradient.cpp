// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Groups, passes and bands of the sum over samples, on images of several bands; small images are
// covered by ops/convolution.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/direct_engines.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class R, int Bytes>
struct width_of {
  using real = R;
  static constexpr int bytes = Bytes;
  static constexpr int V = Bytes / static_cast<int>(sizeof(R));
  using gradient = detail::ops::weight_gradient<R, V>;
  static detail::ops::weight_gradient_plan plan(const convolution_problem& p, int samples) {
    return detail::ops::plan_weight_gradient<R, V>(p, samples);
  }
};
#define WIDTHS                     \
  width_of<float, register_bytes>, \
      width_of<double, 16> FURTHER_TYPES(, width_of<float, 16>, width_of<double, register_bytes>)

}  // namespace

TEST_CASE_TEMPLATE(
    "weight_gradient: as many groups of samples as make eight tasks, with sums for each of several",
    W, WIDTHS) {
  for (const int window : {1, 3})
    for (const int filters : {1, W::V, 4 * W::V, 33, 64 * W::V}) {
      const convolution_problem p{{16, 8, 8}, filters, window, 1, window / 2};
      const detail::ops::packed_form<W::V> form{filters, 16, window};
      const int blocks = window == 3 ? 2 : detail::ops::max_filter_blocks<typename W::real, W::V>;
      const int sets = (filters + blocks * W::V - 1) / (blocks * W::V);
      for (const int samples : {0, 1, 2, 7, 8, 9, 1000}) {
        const int groups = std::clamp(samples, 1, std::max(1, 8 / sets));
        CHECK(W::plan(p, samples).groups == groups);
        CHECK(W::plan(p, samples).workspace() ==
              (groups > 1 ? static_cast<std::size_t>(groups) * form.size() : 0));
      }
    }
}

TEST_CASE_TEMPLATE(
    "weight_gradient: the workspace holds the pixels that a 1x1 window gathers behind a stride", W,
    WIDTHS) {
  const convolution_problem p{{16, 7, 8}, 33, 1, 2, 0};
  const detail::ops::packed_form<W::V> form{33, 16, 1};
  for (const int samples : {0, 1, 7}) {
    const int groups = W::plan(p, samples).groups;
    CHECK(W::plan(p, samples).workspace() ==
          (groups > 1 ? static_cast<std::size_t>(groups) * form.size() : 0) +
              static_cast<std::size_t>(samples) * 16 * 4 * 4);
  }
}

TEST_CASE_TEMPLATE("weight_gradient: every sample is summed once, for any number of groups", W,
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
      CAPTURE(describe(p));
      CAPTURE(samples);
      const std::size_t n = size(samples);
      std::vector<double> x(n * p.in.size()), dy(n * p.out().size()), dw(p.weights());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 7 % 5) - 2;
      for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<double>(i * 11 % 7) - 3;
      for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        dw[iw] += x[ix] * dy[iy];
      });
      harness<direct_on<W::bytes>, Real> engine{p, samples};
      CHECK(engine.wgrad(x, dy) == dw);
      std::vector<double> before(dw.size(), 5), more = dw;
      for (double& g : more) g += 5;
      CHECK(engine.wgrad(x, dy, before) == more);
    }
}

TEST_CASE_TEMPLATE("weight_gradient: images in several bands have the sums of those in one", W,
                   WIDTHS) {
  using Real = typename W::real;
  for (const convolution_problem& p : {convolution_problem{{16, 40, 48}, 64, 3, 1, 1},
                                       {{16, 41, 65}, 64, 3, 2, 1},
                                       {{16, 30, 70}, 32, 5, 1, 2},
                                       {{16, 33, 64}, 16, 3, 1, 1},
                                       {{3, 40, 90}, 64, 7, 2, 3},
                                       {{3, 60, 250}, 17, 7, 2, 3},
                                       {{32, 33, 33}, 32, 1, 2, 0},
                                       {{16, 60, 70}, 32, 1, 1, 0},
                                       {{16, 3, 400}, 32, 1, 1, 1}}) {
    CAPTURE(describe(p));
    const int samples = 3;
    const auto x = random_numbers(3 * p.in.size(), 1), dy = random_numbers(3 * p.out().size(), 2);
    sums<Real> dw(p.weights());
    for_each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      dw.add(iw, dy[iy] * x[ix]);
    });
    CHECK(dw.error_of(harness<direct_on<W::bytes>, Real>{p, samples}.wgrad(x, dy)) == 0);
  }
}

TEST_CASE_TEMPLATE("weight_gradient: the workspace may hold NaN before", W, WIDTHS) {
  using Real = typename W::real;
  for (const convolution_problem& p :
       {convolution_problem{{16, 8, 8}, 33, 3, 1, 1}, {{3, 8, 8}, 17, 3, 1, 1}}) {
    const int samples = 11;
    const typename W::gradient gradient(p, samples);
    const std::vector<Real> x(
        11 * sample_size(p.in, detail::ops::channel_block_size<W::V>(p.in.channels)), Real{1}),
        dy(11 * sample_size(p.out(), detail::ops::channel_block_size<W::V>(p.filters)), Real{1});
    std::vector<Real> dw(p.weights());
    std::vector<Real> memory(gradient.plan().workspace(), std::numeric_limits<Real>::quiet_NaN());
    gradient.run(x.data(), dy.data(), dw.data(), write_mode::overwrite, memory.data(), {});
    // Each tap sums over the pixels that it reaches: 8 or 7 rows by 8 or 7 columns.
    for (std::size_t i = 0; i < dw.size(); ++i) {
      const std::size_t r = i / 3 % 3, s = i % 3;
      CHECK(dw[i] == static_cast<Real>(11 * (r == 1 ? 8 : 7) * (s == 1 ? 8 : 7)));
    }
  }
}
