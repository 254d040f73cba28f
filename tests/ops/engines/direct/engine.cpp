// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The layout, the packed weights and the NaN behaviour of engine `direct`; its sums are covered by
// ops/convolution.cpp and ops/engines/shapes.cpp.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <int Bytes, class Real>
struct width_of {
  using engine = direct_on<Bytes>;
  using real = Real;
  static constexpr int V = Bytes / static_cast<int>(sizeof(Real));
};

}  // namespace

static_assert(
    std::same_as<direct, direct_with<register_bytes, byte_dots, detail::ops::bfloat_dots>>);
static_assert(ConvolutionEngine<direct_with<16>, double> && !ConvolutionEngine<direct, int>);

TEST_CASE_TEMPLATE("direct: a block is a register, or all channels of a narrow image", W,
                   width_of<16, float>, width_of<32, float>, width_of<16, double>,
                   width_of<32, double>) {
  using Real = typename W::real;
  for (int channels = 1; channels <= 40; ++channels)
    CHECK(W::engine::template block<Real>(channels) == (channels <= 4 ? channels : W::V));
}

TEST_CASE_TEMPLATE("direct: packed weights hold every weight once for each direction, and zeros", W,
                   width_of<16, float>, width_of<16, double>, width_of<register_bytes, float>,
                   width_of<register_bytes, double>) {
  using Real = typename W::real;
  for (const convolution_problem& p : {convolution_problem{{16, 8, 8}, 16, 3, 1, 1},
                                       {{3, 8, 8}, 17, 3, 1, 1},
                                       {{17, 8, 8}, 3, 5, 2, 2},
                                       {{5, 4, 4}, 9, 1, 1, 0}}) {
    CAPTURE(describe(p));
    std::vector<double> w(p.weights());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i + 1);
    auto packed = harness<typename W::engine, Real>{p}.packed(w);
    std::sort(packed.begin(), packed.end());
    const std::size_t zeros = packed.size() - 2 * w.size();
    for (std::size_t i = 0; i < zeros; ++i) CHECK(packed[i] == 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      CHECK(packed[zeros + 2 * i] == static_cast<Real>(i + 1));
      CHECK(packed[zeros + 2 * i + 1] == static_cast<Real>(i + 1));
    }
  }
}

TEST_CASE("direct: fprop reads weights (K/V, C/V, R, S, C of a block, K of a block)") {
  constexpr int V = 4;
  const convolution_problem p{{8, 6, 6}, 8, 3, 1, 1};
  std::vector<double> w(p.weights());
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i);
  const auto packed = harness<direct_with<16>, float>{p}.packed(w);
  for (std::size_t at = 0; at < p.weights(); ++at) {
    std::size_t rest = at;
    const auto digit = [&](std::size_t base) {
      const std::size_t d = rest % base;
      rest /= base;
      return d;
    };
    const std::size_t k = digit(V), c = digit(V), s = digit(3), r = digit(3), cs = digit(2);
    const std::size_t filter = rest * V + k, channel = cs * V + c;
    CHECK(packed[at] == static_cast<float>(((filter * 8 + channel) * 3 + r) * 3 + s));
    // For dgrad, filters and channels are exchanged.
    CHECK(packed[p.weights() + at] == static_cast<float>(((channel * 8 + filter) * 3 + r) * 3 + s));
  }
}

TEST_CASE_TEMPLATE(
    "direct: a NaN reaches all sums that it is part of, and no other filter or channel", W,
    width_of<register_bytes, float>, width_of<register_bytes, double>) {
  using Real = typename W::real;
  const double bad = std::numeric_limits<double>::quiet_NaN();
  for (const convolution_problem& p : {convolution_problem{{16, 6, 7}, 32, 3, 1, 1},
                                       {{3, 6, 7}, 16, 3, 1, 1},
                                       {{16, 7, 7}, 17, 3, 2, 1},
                                       {{32, 6, 5}, 16, 1, 2, 0},
                                       {{16, 6, 7}, 16, 3, 1, 1}})
    for (const std::size_t pixel : {0u, 3u, 29u}) {
      CAPTURE(describe(p));
      CAPTURE(pixel);
      auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
           dy = random_numbers(2 * p.out().size(), 3);
      const std::size_t at_x = pixel, at_dy = std::min(pixel, p.out().pixels() - 1);
      std::vector<bool> y_hit(dy.size()), dx_hit(x.size()), dw_hit(w.size()), dw_hit_dy(w.size());
      for_each_product(p, 2, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        if (ix == at_x) y_hit[iy] = dw_hit[iw] = true;
        if (iy == at_dy) dx_hit[ix] = dw_hit_dy[iw] = true;
      });
      harness<typename W::engine, Real> engine{p, 2};
      const auto nan_where = [](const std::vector<double>& found, const std::vector<bool>& hit) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < found.size(); ++i) wrong += std::isnan(found[i]) != hit[i];
        return wrong == 0;
      };
      auto bad_x = x, bad_dy = dy;
      bad_x[at_x] = bad_dy[at_dy] = bad;
      CHECK(nan_where(engine.fprop(bad_x, w), y_hit));
      CHECK(nan_where(engine.dgrad(bad_dy, w), dx_hit));
      // Padding is multiplied like pixels: a NaN of dy may reach more taps of its filter, a NaN of
      // x more taps of its channel, than by the definition; but no other filter and no other
      // channel.
      const auto dw = engine.wgrad(x, bad_dy), dw_x = engine.wgrad(bad_x, dy);
      const std::size_t taps = size(p.window * p.window), channels = size(p.in.channels);
      const std::size_t filter = at_dy / p.out().pixels(), channel = at_x / p.in.pixels();
      for (std::size_t i = 0; i < dw.size(); ++i) {
        if (dw_hit_dy[i]) CHECK(std::isnan(dw[i]));
        if (dw_hit[i]) CHECK(std::isnan(dw_x[i]));
        if (i / taps / channels != filter) CHECK(std::isfinite(dw[i]));
        if (i / taps % channels != channel) CHECK(std::isfinite(dw_x[i]));
      }
    }
}

TEST_CASE("direct: results do not depend on what a thread computed before") {
  // A thread's scratch keeps the numbers of the last layer, infinities included.
  const double bad = std::numeric_limits<double>::infinity();
  for (const convolution_problem& p : {convolution_problem{{5, 9, 9}, 17, 3, 1, 1},
                                       {{3, 9, 8}, 4, 3, 2, 1},
                                       {{17, 5, 7}, 3, 5, 2, 2},
                                       {{16, 8, 8}, 16, 3, 2, 1}}) {
    CAPTURE(describe(p));
    const auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(2 * p.out().size(), 3);
    const auto all = [&](harness<direct, float> engine) {
      std::vector<std::vector<double>> out{engine.fprop(x, w), engine.dgrad(dy, w),
                                           engine.wgrad(x, dy)};
      return out;
    };
    const auto before = [&] {
      for (const convolution_problem& q : {convolution_problem{{32, 16, 16}, 33, 5, 1, 2}, p}) {
        harness<direct, float> engine{q, 1};
        const std::vector<double> in(q.in.size(), bad), out(q.out().size(), bad),
            by(q.weights(), bad);
        engine.fprop(in, by);
        engine.dgrad(out, by);
        engine.wgrad(in, out);
      }
    };
    std::vector<std::vector<double>> fresh, used;
    std::thread([&] { fresh = all({p, 2}); }).join();
    std::thread([&] {
      before();
      used = all({p, 2});
    }).join();
    CHECK(fresh == used);
  }
}
