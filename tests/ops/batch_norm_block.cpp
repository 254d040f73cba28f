// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loops over one block; what is made of them is batch_norm.cpp's.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/batch_norm_block.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {

template <class R, int Lanes, class E = epilogue::store>
struct kind_of {
  using real = R;
  static constexpr int V = Lanes;
  using epilogue = E;
};
#define WIDTHS                                                                           \
  kind_of<float, 1>, kind_of<float, 3>, kind_of<float, 4>, kind_of<float, lanes<float>>, \
      kind_of<double, 1>, kind_of<double, lanes<double>>
#define WIDTHS_AND_EPILOGUES                                                                   \
  kind_of<double, 1, epilogue::store>, kind_of<double, 3, epilogue::relu>,                     \
      kind_of<double, 3, epilogue::add_relu>, kind_of<double, lanes<double>, epilogue::store>, \
      kind_of<double, lanes<double>, epilogue::relu>,                                          \
      kind_of<double, lanes<double>, epilogue::add_relu>

// One, odd, even; before, at and after the length at which sums move to double.
constexpr std::size_t lengths_of_blocks[] = {1, 2, 3, 49, 64, 511, 512, 513, 1024, 1025};

template <class Real>
constexpr double precision = sizeof(Real) == 4 ? 2e-6 : 1e-13;

/// A block with everything that its loops read.
template <int V>
struct block {
  std::size_t pixels;
  std::vector<double> x = numbers(1), y = numbers(2), dy = numbers(3), residual = numbers(4);
  std::vector<double> a = normal_numbers(V, 5), b = normal_numbers(V, 6), c = normal_numbers(V, 7),
                      d = normal_numbers(V, 8);

  std::vector<double> numbers(std::uint64_t seed) const { return normal_numbers(pixels * V, seed); }
};
template <class E>
constexpr bool rectified = !std::same_as<E, epilogue::store>;
template <class E>
constexpr bool added = std::same_as<E, epilogue::add_relu>;

}  // namespace

static_assert(register_lanes<8> == 8 && register_lanes<1> == 1 && register_lanes<3> == 1);

TEST_CASE("batch_norm_block: memory that is absent stays absent, whatever the offset") {
  const double x[3] = {};
  CHECK(behind(static_cast<const double*>(nullptr), 5) == nullptr);
  CHECK(behind(x, 2) == x + 2);
}

TEST_CASE_TEMPLATE("batch_norm_block: moments are mean and squared deviations, at any length", K,
                   WIDTHS) {
  using Real = typename K::real;
  constexpr int V = K::V;
  for (const std::size_t pixels : lengths_of_blocks)
    for (const double shift : {0.0, 4096.0}) {
      CAPTURE(pixels);
      CAPTURE(shift);
      auto x = normal_numbers<Real>(pixels * V, 1);
      for (Real& v : x) v = std::round(v * 64) / 64 + static_cast<Real>(shift);  // exact in float
      double mean[V], deviations[V];
      block_moments<Real, V>(pixels, x.data(), mean, deviations);
      for (std::size_t v = 0; v < V; ++v) {
        long double sum = 0, square = 0;
        for (std::size_t p = 0; p < pixels; ++p) sum += static_cast<long double>(x[p * V + v]);
        const long double centre = sum / static_cast<long double>(pixels);
        for (std::size_t p = 0; p < pixels; ++p) {
          const long double off = static_cast<long double>(x[p * V + v]) - centre;
          square += off * off;
        }
        CHECK(mean[v] == doctest::Approx(static_cast<double>(centre)).epsilon(precision<Real>));
        CHECK(std::abs(deviations[v] - static_cast<double>(square)) <=
              4 * precision<Real> * static_cast<double>(pixels));
      }
    }
}

TEST_CASE("batch_norm_block: equal numbers deviate by exactly nothing") {
  for (const double value : {0.0, 0.1, -1e30, 1e-30}) {
    const std::vector<double> x(37, value);
    double mean, deviations;
    block_moments<double, 1>(37, x.data(), &mean, &deviations);
    CHECK(mean == value);
    CHECK(deviations == 0);
  }
}

TEST_CASE("batch_norm_block: one number that is not finite spoils its own channel alone") {
  constexpr int V = lanes<float>;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const std::size_t pixel : {0u, 5u}) {
      auto x = normal_numbers<float>(9 * V, 1);
      x[pixel * V + 2] = bad;
      double mean[V], deviations[V];
      block_moments<float, V>(9, x.data(), mean, deviations);
      for (int v = 0; v < V; ++v) {
        CHECK(std::isfinite(mean[v]) == (v != 2));
        CHECK(std::isfinite(deviations[v]) == (v != 2));
      }
    }
}

TEST_CASE_TEMPLATE("batch_norm_block: applying stores what the epilogue makes of it", K,
                   WIDTHS_AND_EPILOGUES) {
  constexpr int V = K::V;
  using E = typename K::epilogue;
  for (const std::size_t pixels : {std::size_t{1}, std::size_t{2}, std::size_t{49}}) {
    block<V> at{pixels};
    at.x[0] = std::numeric_limits<double>::quiet_NaN();  // stays so, through a ReLU too
    block_apply<double, V, E>(pixels, at.x.data(), at.c.data(), at.a.data(), at.b.data(),
                              added<E> ? at.residual.data() : nullptr, at.y.data());
    CHECK(std::isnan(at.y[0]));
    for (std::size_t i = 1; i < at.x.size(); ++i) {
      const std::size_t v = i % V;
      double z = (at.x[i] - at.c[v]) * at.a[v] + at.b[v] + (added<E> ? at.residual[i] : 0);
      if (rectified<E>) z = std::max(z, 0.0);
      CHECK(at.y[i] == doctest::Approx(z).epsilon(1e-13));
      if (rectified<E>) CHECK(at.y[i] >= 0);
    }
  }
}

TEST_CASE_TEMPLATE("batch_norm_block: sums of the gradient, and of its product with h", K,
                   WIDTHS_AND_EPILOGUES) {
  constexpr int V = K::V;
  using E = typename K::epilogue;
  for (const std::size_t pixels : lengths_of_blocks) {
    CAPTURE(pixels);
    block<V> at{pixels};
    for (std::size_t i = 0; i < at.y.size(); ++i) at.y[i] = i % 3 == 0 ? 0 : at.y[i];
    const auto dy = at.dy;
    double shift[V], scale[V];
    block_sums<double, V, E>(pixels, at.x.data(), at.y.data(), at.dy.data(), at.c.data(),
                             at.a.data(), shift, scale);
    std::vector<double> g(dy);
    for (std::size_t i = 0; i < g.size(); ++i)
      if (rectified<E> && !(at.y[i] > 0)) g[i] = 0;
    CHECK(at.dy == (added<E> ? g : dy));  // the residual's gradient, or as it was
    for (std::size_t v = 0; v < V; ++v) {
      double sum = 0, product = 0, magnitude = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        const double h = (at.x[p * V + v] - at.c[v]) * at.a[v];
        sum += g[p * V + v];
        product += g[p * V + v] * h;
        magnitude += std::abs(g[p * V + v]) + std::abs(g[p * V + v] * h);
      }
      CHECK(std::abs(shift[v] - sum) <= 1e-14 * magnitude);
      CHECK(std::abs(scale[v] - product) <= 1e-14 * magnitude);
    }
  }
}

TEST_CASE_TEMPLATE("batch_norm_block: the input gradient, beside the output's or in its place", K,
                   WIDTHS_AND_EPILOGUES) {
  constexpr int V = K::V;
  using E = typename K::epilogue;
  block<V> at{49};
  for (std::size_t i = 0; i < at.y.size(); ++i) at.y[i] = i % 3 == 0 ? 0 : at.y[i];
  std::vector<double> dx(at.dy.size());
  const auto gradient = [&](double* to) {
    block_gradient<double, V, E>(49, at.x.data(), at.y.data(), at.dy.data(), at.c.data(),
                                 at.a.data(), at.b.data(), at.d.data(), to);
  };
  gradient(dx.data());
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const std::size_t v = i % V;
    const double g = rectified<E> && !(at.y[i] > 0) ? 0 : at.dy[i];
    CHECK(dx[i] ==
          doctest::Approx(at.a[v] * g - at.b[v] - (at.x[i] - at.c[v]) * at.d[v]).epsilon(1e-12));
  }
  gradient(at.dy.data());
  CHECK(at.dy == dx);
}

TEST_CASE("batch_norm_block: every block of every sample is visited once, by any workers") {
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    std::vector<int> visits(5 * 7);
    for_each_block(5, 7, device.open(), [&](std::size_t n, std::size_t b) { ++visits[n * 7 + b]; });
    CHECK(visits == std::vector<int>(5 * 7, 1));
    for_each_block(0, 7, device.open(), [&](std::size_t, std::size_t) { ++visits[0]; });
    for_each_block(3, 0, device.open(), [&](std::size_t, std::size_t) { ++visits[0]; });
    CHECK(visits[0] == 1);
  }
}

TEST_CASE("batch_norm_block: every block of every sample has the same visitor each time") {
  constexpr std::size_t samples = 3, blocks = 5;
  const cpu device(2);
  std::vector<std::thread::id> visitors[2];
  for (auto& of : visitors) {
    of.resize(samples * blocks);
    for_each_block(int{samples}, blocks, device.open(), [&](std::size_t n, std::size_t b) {
      of[n * blocks + b] = std::this_thread::get_id();
    });
  }
  CHECK(visitors[0] == visitors[1]);
  CHECK(visitors[0].front() != visitors[0].back());
}

TEST_CASE("batch_norm_block: ranges cover all blocks once, in one piece where they go together") {
  for (const int workers : {1, 2, 3})
    for (const std::size_t blocks : {1u, 4u, 5u, 64u})
      for (const bool together : {false, true}) {
        const cpu device(workers);
        std::vector<int> visits(blocks);
        std::atomic<std::size_t> calls = 0;
        for_ranges_of_blocks<16>(blocks, together, device.open(),
                                 [&](std::size_t first, std::size_t last) {
                                   ++calls;
                                   for (std::size_t b = first; b < last; ++b) ++visits[b];
                                 });
        CHECK(visits == std::vector<int>(blocks, 1));
        if (together || blocks <= 4) CHECK(calls == 1);
        if (!together && blocks == 64) CHECK(calls == static_cast<std::size_t>(workers));
      }
}
