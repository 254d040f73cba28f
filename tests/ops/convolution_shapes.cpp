// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `direct` against `reference` at the windows, strides, paddings and sides of both families
// of residual networks, odd ones and few pixels included. Channels are few: what they do to an
// engine is convolution.cpp's.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/ops/layout.hpp>

using namespace cordee;

namespace {

using numbers = std::vector<double>;

std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// Numbers on [-1, 1) that both precisions hold exactly.
numbers random_numbers(std::size_t n, std::uint64_t which) {
  random_sequence draw(11, purpose::test, which, 0);
  numbers v(n);
  for (double& x : v) x = static_cast<float>(2 * draw.uniform() - 1);
  return v;
}
numbers magnitudes(numbers v) {
  for (double& x : v) x = std::abs(x);
  return v;
}
numbers ones(std::size_t n) { return numbers(n, 1.0); }

struct results {
  numbers y, dx, dw;
  bool filling_is_zero = true;
};

/// All three directions of an engine, from and to NCHW.
template <class Engine, class Real>
results compute(const convolution_problem& p, int samples, const numbers& x, const numbers& w,
                const numbers& dy, cpu::stream s) {
  const extent out = p.out();
  const int bx = Engine::template block<Real>(p.in.channels),
            by = Engine::template block<Real>(p.filters);
  const auto place = [](std::size_t i, const extent& e, int block) {
    const std::size_t pixel = i % e.pixels(), c = i / e.pixels() % size(e.channels),
                      b = size(block);
    return i / e.size() * sample_size(e, block) + (c / b * e.pixels() + pixel) * b + c % b;
  };
  const auto blocked = [&](const numbers& plain, const extent& e, int block) {
    std::vector<Real> v(size(samples) * sample_size(e, block), Real{0});
    for (std::size_t i = 0; i < plain.size(); ++i)
      v[place(i, e, block)] = static_cast<Real>(plain[i]);
    return v;
  };
  results r;
  const auto plain = [&](std::vector<Real> v, const extent& e, int block) {
    numbers found(size(samples) * e.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = static_cast<double>(v[place(i, e, block)]);
      v[place(i, e, block)] = 0;
    }
    for (const Real left : v) r.filling_is_zero = r.filling_is_zero && left == 0;
    return found;
  };

  const Engine engine{};
  const std::vector<Real> master(w.begin(), w.end());
  std::vector<Real> image(engine.template packed_size<Real>(p), Real{99});
  engine.template pack<Real>(p, master.data(), image.data(), s);
  const auto in = blocked(x, p.in, bx), slope = blocked(dy, out, by);
  std::vector<Real> y(size(samples) * sample_size(out, by), Real{99});
  std::vector<Real> dx(in.size(), Real{99}), dw(w.size(), Real{99});
  std::vector<Real> work(engine.template workspace<Real>(p, samples, s), Real{99});
  engine.template fprop<Real>(p, samples, in.data(), image.data(), y.data(), s);
  engine.template dgrad<Real>(p, samples, slope.data(), image.data(), dx.data(), into::overwrite,
                              s);
  engine.template wgrad<Real>(p, samples, in.data(), slope.data(), dw.data(), into::overwrite,
                              work.data(), s);
  r.y = plain(y, out, by);
  r.dx = plain(dx, p.in, bx);
  r.dw.assign(dw.begin(), dw.end());
  return r;
}

/// How many numbers are off by more than sqrt(n) eps m, n and m the terms of the sum and the sum of
/// their magnitudes (convolution.cpp says why).
template <class Real>
std::size_t far_off(const numbers& found, const numbers& exact, const numbers& magnitude,
                    const numbers& terms) {
  REQUIRE(found.size() == exact.size());
  std::size_t far = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double allowed =
        std::numeric_limits<Real>::epsilon() * magnitude[i] * std::sqrt(terms[i] + 1);
    if (!(std::abs(found[i] - exact[i]) <= allowed)) ++far;
  }
  return far;
}

void agree(const convolution_problem& p) {
  const int samples = p.in.pixels() < 300 ? 3 : 1;
  const auto n = size(samples);
  INFO(to_text(p.in), " -> ", p.filters, ", window ", p.window, ", stride ", p.stride, ", padding ",
       p.padding, ", samples ", samples);
  const cpu device(2);
  const auto s = device.open();
  const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
             dy = random_numbers(n * p.out().size(), 3);
  const auto exact = compute<reference, double>(p, samples, x, w, dy, s);
  const auto m =
      compute<reference, double>(p, samples, magnitudes(x), magnitudes(w), magnitudes(dy), s);
  const auto terms =
      compute<reference, double>(p, samples, ones(x.size()), ones(w.size()), ones(dy.size()), s);
  const auto check = [&]<class Real>(Real) {
    INFO("direct, ", sizeof(Real), " bytes");
    const auto found = compute<direct, Real>(p, samples, x, w, dy, s);
    CHECK(far_off<Real>(found.y, exact.y, m.y, terms.y) == 0);
    CHECK(far_off<Real>(found.dx, exact.dx, m.dx, terms.dx) == 0);
    CHECK(far_off<Real>(found.dw, exact.dw, m.dw, terms.dw) == 0);
    CHECK(found.filling_is_zero);
  };
  check(float{});
  check(double{});
}

}  // namespace

TEST_CASE("direct is right in the large stem, 7x7 of stride 2 on one and three channels") {
  for (const int side : {7, 8, 15, 32, 33, 64, 65, 112}) {
    agree({{3, side, side}, 16, 7, 2, 3});
    agree({{1, side, side}, 17, 7, 2, 3});
  }
  agree({{3, 224, 224}, 8, 7, 2, 3});
  agree({{3, 7, 224}, 16, 7, 2, 3});
  agree({{3, 225, 9}, 16, 7, 2, 3});
  agree({{3, 31, 18}, 64, 7, 2, 3});
}

TEST_CASE("direct is right in the small stem, 3x3 of stride 1 on one and three channels") {
  for (const int side : {4, 7, 8, 28, 32, 33, 57, 112, 224}) {
    agree({{3, side, side}, 16, 3, 1, 1});
    agree({{1, side, side}, 16, 3, 1, 1});
  }
}

TEST_CASE("direct is right in 3x3 of strides 1 and 2 at the sides of every stage") {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 16, 27, 28, 29, 32, 33, 55, 56, 57})
      agree({{16, side, side}, 16, 3, stride, 1});
    for (const int side : {111, 112, 113}) agree({{5, side, side}, 16, 3, stride, 1});
    agree({{16, 7, 56}, 32, 3, stride, 1});
    agree({{16, 55, 6}, 32, 3, stride, 1});
    agree({{64, 7, 7}, 128, 3, stride, 1});
    agree({{32, 14, 13}, 48, 3, stride, 1});
    agree({{2, 224, 224}, 3, 3, stride, 1});
    agree({{16, 224, 5}, 16, 3, stride, 1});
    agree({{16, 5, 224}, 16, 3, stride, 1});
  }
}

TEST_CASE("direct is right in 1x1 of strides 1 and 2, narrowing, widening and projecting") {
  for (const int stride : {1, 2}) {
    for (const int side : {7, 8, 13, 14, 15, 28, 29}) {
      agree({{16, side, side}, 64, 1, stride, 0});
      agree({{64, side, side}, 16, 1, stride, 0});
    }
    for (const int side : {55, 56, 57, 112, 113}) agree({{16, side, side}, 16, 1, stride, 0});
    agree({{128, 7, 7}, 256, 1, stride, 0});
    agree({{2, 224, 224}, 16, 1, stride, 0});
    agree({{16, 9, 56}, 32, 1, stride, 0});
  }
}

TEST_CASE("direct is right where the last stages of small images have a handful of pixels") {
  for (const int height : {1, 2, 3, 4, 5, 6})
    for (const int width : {1, 2, 3, 5})
      for (const int stride : {1, 2}) {
        agree({{16, height, width}, 32, 3, stride, 1});
        agree({{32, height, width}, 16, 1, stride, 0});
        agree({{3, height, width}, 16, 7, stride, 3});
        agree({{16, height, width}, 16, 5, stride, 2});
      }
}
