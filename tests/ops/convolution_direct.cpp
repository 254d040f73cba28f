// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is the direct engine's own; that it computes convolutions, convolution.cpp says.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace support;

namespace {

template <int Bytes, class Real>
struct width_of {
  using engine = direct_on<Bytes>;
  using real = Real;
  static constexpr int V = Bytes / static_cast<int>(sizeof(Real));
};

}  // namespace

static_assert(std::same_as<direct, direct_with<register_bytes, byte_dots>>);
static_assert(ConvolutionEngine<direct_with<16>, double> && !ConvolutionEngine<direct, int>);

TEST_CASE_TEMPLATE("direct: a block is a register, or all channels of a narrow image", W,
                   width_of<16, float>, width_of<32, float>, width_of<16, double>,
                   width_of<32, double>) {
  using Real = typename W::real;
  for (int channels = 1; channels <= 40; ++channels)
    CHECK(W::engine::template block<Real>(channels) == (channels <= 4 ? channels : W::V));
}

TEST_CASE_TEMPLATE("direct: the image holds every weight once for each direction, zeros beside", W,
                   width_of<16, float>, width_of<16, double>, width_of<register_bytes, float>,
                   width_of<register_bytes, double>) {
  using Real = typename W::real;
  for (const convolution_problem& p : {convolution_problem{{16, 8, 8}, 16, 3, 1, 1},
                                       {{3, 8, 8}, 17, 3, 1, 1},
                                       {{17, 8, 8}, 3, 5, 2, 2},
                                       {{5, 4, 4}, 9, 1, 1, 0}}) {
    CAPTURE(to_text(p));
    std::vector<double> w(p.weights());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i + 1);
    auto image = harness<typename W::engine, Real>{p}.packed(w);
    std::sort(image.begin(), image.end());
    const std::size_t zeros = image.size() - 2 * w.size();
    for (std::size_t i = 0; i < zeros; ++i) CHECK(image[i] == 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      CHECK(image[zeros + 2 * i] == static_cast<Real>(i + 1));
      CHECK(image[zeros + 2 * i + 1] == static_cast<Real>(i + 1));
    }
  }
}

TEST_CASE("direct: fprop reads (K / V, C / V, R, S, C of a block, K of a block)") {
  constexpr int V = 4;
  const convolution_problem p{{8, 6, 6}, 8, 3, 1, 1};
  std::vector<double> w(p.weights());
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i);
  const auto image = harness<direct_with<16>, float>{p}.packed(w);
  for (std::size_t at = 0; at < p.weights(); ++at) {
    std::size_t rest = at;
    const auto digit = [&](std::size_t base) {
      const std::size_t d = rest % base;
      rest /= base;
      return d;
    };
    const std::size_t k = digit(V), c = digit(V), s = digit(3), r = digit(3), cs = digit(2);
    const std::size_t filter = rest * V + k, channel = cs * V + c;
    CHECK(image[at] == static_cast<float>(((filter * 8 + channel) * 3 + r) * 3 + s));
    // Back, filters and channels have changed places.
    CHECK(image[p.weights() + at] == static_cast<float>(((channel * 8 + filter) * 3 + r) * 3 + s));
  }
}

TEST_CASE_TEMPLATE("direct: where numbers are not finite, so are the sums that they are part of", W,
                   width_of<register_bytes, float>, width_of<register_bytes, double>) {
  using Real = typename W::real;
  const double bad = std::numeric_limits<double>::quiet_NaN();
  for (const convolution_problem& p : {convolution_problem{{16, 6, 7}, 32, 3, 1, 1},
                                       {{3, 6, 7}, 16, 3, 1, 1},
                                       {{16, 7, 7}, 17, 3, 2, 1},
                                       {{32, 6, 5}, 16, 1, 2, 0},
                                       {{16, 6, 7}, 16, 3, 1, 1}})
    for (const std::size_t pixel : {0u, 3u, 29u}) {
      CAPTURE(to_text(p));
      CAPTURE(pixel);
      auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
           dy = random_numbers(2 * p.out().size(), 3);
      const std::size_t at_x = pixel, at_dy = std::min(pixel, p.out().pixels() - 1);
      std::vector<bool> y_hit(dy.size()), dx_hit(x.size()), dw_hit(w.size()), dw_hit_dy(w.size());
      each_product(p, 2, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        if (ix == at_x) y_hit[iy] = dw_hit[iw] = true;
        if (iy == at_dy) dx_hit[ix] = dw_hit_dy[iw] = true;
      });
      harness<typename W::engine, Real> engine{p, 2};
      const auto as_said = [](const std::vector<double>& found, const std::vector<bool>& hit) {
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < found.size(); ++i) wrong += std::isnan(found[i]) != hit[i];
        return wrong == 0;
      };
      auto sick_x = x, sick_dy = dy;
      sick_x[at_x] = sick_dy[at_dy] = bad;
      CHECK(as_said(engine.fprop(sick_x, w), y_hit));
      CHECK(as_said(engine.dgrad(sick_dy, w), dx_hit));
      // Padding is multiplied like pixels: an error may meet more taps of its filter, a pixel more
      // taps of its channel, than the definition says; but no other filter and no other channel.
      const auto dw = engine.wgrad(x, sick_dy), dw_x = engine.wgrad(sick_x, dy);
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

TEST_CASE("direct: what a thread computed before leaves no trace") {
  // Scratch is a thread's own and keeps what was in it: another layer, numbers that are not finite.
  const double bad = std::numeric_limits<double>::infinity();
  for (const convolution_problem& p : {convolution_problem{{5, 9, 9}, 17, 3, 1, 1},
                                       {{3, 9, 8}, 4, 3, 2, 1},
                                       {{17, 5, 7}, 3, 5, 2, 2},
                                       {{16, 8, 8}, 16, 3, 2, 1}}) {
    CAPTURE(to_text(p));
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
