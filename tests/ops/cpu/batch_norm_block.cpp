// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The loops over one block; tests/ops/cpu/batch_norm.cpp tests the passes.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/batch_norm_block.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <class R, int Lanes, class E = epilogue::store>
struct block_case {
  using real = R;
  static constexpr int V = Lanes;
  using epilogue = E;
};
#define WIDTHS                                                                          \
  block_case<float, 3>, block_case<float, lanes<float>>,                                \
      block_case<double, 1> FURTHER_TYPES(, block_case<float, 1>, block_case<float, 4>, \
                                          block_case<float, 2 * lanes<float>>,          \
                                          block_case<double, lanes<double>>)
#define WIDTHS_AND_EPILOGUES                                                     \
  block_case<double, 1, epilogue::store>, block_case<double, 3, epilogue::relu>, \
      block_case<double, lanes<double>, epilogue::add_relu> FURTHER_TYPES(       \
          , block_case<double, 3, epilogue::add_relu>,                           \
          block_case<double, lanes<double>, epilogue::store>,                    \
          block_case<double, lanes<double>, epilogue::relu>)

// One, odd, even; below, at and above the length of a partial sum.
constexpr std::size_t lengths_of_blocks[] = {1, 2, 3, 49, 64, 511, 512, 513, 1024, 1025};

template <class Real>
constexpr double precision = sizeof(Real) == 4 ? 2e-6 : 1e-13;

/// The inputs of the loops over one block.
template <int V>
struct block {
  std::size_t pixels;
  std::vector<double> x = numbers(1), y = numbers(2), dy = numbers(3), residual = numbers(4);
  std::vector<double> a = normal_numbers(V, 5), b = normal_numbers(V, 6), c = normal_numbers(V, 7),
                      d = normal_numbers(V, 8);

  std::vector<double> numbers(std::uint64_t seed) const { return normal_numbers(pixels * V, seed); }
};
template <class E>
constexpr bool has_relu = !std::same_as<E, epilogue::store>;
template <class E>
constexpr bool has_residual = std::same_as<E, epilogue::add_relu>;

}  // namespace

TEST_CASE("batch_norm_block: absent memory stays null with any offset") {
  const double x[3] = {};
  CHECK(offset_or_null(static_cast<const double*>(nullptr), 5) == nullptr);
  CHECK(offset_or_null(x, 2) == x + 2);
}

TEST_CASE_TEMPLATE("block_moments: mean and squared deviations, at any length", K, WIDTHS) {
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
        const long double center = sum / static_cast<long double>(pixels);
        for (std::size_t p = 0; p < pixels; ++p) {
          const long double deviation = static_cast<long double>(x[p * V + v]) - center;
          square += deviation * deviation;
        }
        CHECK(mean[v] == doctest::Approx(static_cast<double>(center)).epsilon(precision<Real>));
        CHECK(std::abs(deviations[v] - static_cast<double>(square)) <=
              4 * precision<Real> * static_cast<double>(pixels));
      }
    }
}

TEST_CASE("block_moments: the deviations of equal numbers are exactly zero") {
  for (const double value : {0.0, 0.1, -1e30, 1e-30}) {
    const std::vector<double> x(37, value);
    double mean, deviations;
    block_moments<double, 1>(37, x.data(), &mean, &deviations);
    CHECK(mean == value);
    CHECK(deviations == 0);
  }
}

TEST_CASE("block_moments: a number that is not finite affects its own channel only") {
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

TEST_CASE_TEMPLATE("normalize_block: applies scale, shift and epilogue", K, WIDTHS_AND_EPILOGUES) {
  constexpr int V = K::V;
  using E = typename K::epilogue;
  for (const std::size_t pixels : {std::size_t{1}, std::size_t{2}, std::size_t{49}}) {
    block<V> t{pixels};
    t.x[0] = std::numeric_limits<double>::quiet_NaN();  // stays NaN, with a ReLU too
    normalize_block<double, V, E>(pixels, t.x.data(), t.c.data(), t.a.data(), t.b.data(),
                                  has_residual<E> ? t.residual.data() : nullptr, t.y.data());
    CHECK(std::isnan(t.y[0]));
    for (std::size_t i = 1; i < t.x.size(); ++i) {
      const std::size_t v = i % V;
      double z = (t.x[i] - t.c[v]) * t.a[v] + t.b[v] + (has_residual<E> ? t.residual[i] : 0);
      if (has_relu<E>) z = std::max(z, 0.0);
      CHECK(t.y[i] == doctest::Approx(z).epsilon(1e-13));
      if (has_relu<E>) CHECK(t.y[i] >= 0);
    }
  }
}

TEST_CASE_TEMPLATE("block_gradient_sums: sums of the gradient, and of its product with h", K,
                   WIDTHS_AND_EPILOGUES) {
  constexpr int V = K::V;
  using E = typename K::epilogue;
  for (const std::size_t pixels : lengths_of_blocks) {
    CAPTURE(pixels);
    block<V> t{pixels};
    for (std::size_t i = 0; i < t.y.size(); ++i) t.y[i] = i % 3 == 0 ? 0 : t.y[i];
    const auto dy = t.dy;
    double shift[V], scale[V];
    block_gradient_sums<double, V, E>(pixels, t.x.data(), t.y.data(), t.dy.data(), t.c.data(),
                                      t.a.data(), shift, scale);
    std::vector<double> g(dy);
    for (std::size_t i = 0; i < g.size(); ++i)
      if (has_relu<E> && !(t.y[i] > 0)) g[i] = 0;
    CHECK(t.dy == g);
    for (std::size_t v = 0; v < V; ++v) {
      double sum = 0, product = 0, magnitude = 0;
      for (std::size_t p = 0; p < pixels; ++p) {
        const double h = (t.x[p * V + v] - t.c[v]) * t.a[v];
        sum += g[p * V + v];
        product += g[p * V + v] * h;
        magnitude += std::abs(g[p * V + v]) + std::abs(g[p * V + v] * h);
      }
      CHECK(std::abs(shift[v] - sum) <= 1e-14 * magnitude);
      CHECK(std::abs(scale[v] - product) <= 1e-14 * magnitude);
    }
  }
}

TEST_CASE_TEMPLATE("block_input_gradient: out of place and in place", K, block_case<double, 1>,
                   block_case<double, 3>, block_case<double, lanes<double>>) {
  constexpr int V = K::V;
  block<V> t{49};
  std::vector<double> dx(t.dy.size());
  const auto gradient = [&](double* to) {
    block_input_gradient<double, V>(49, t.x.data(), t.dy.data(), t.c.data(), t.a.data(), t.b.data(),
                                    t.d.data(), to);
  };
  gradient(dx.data());
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const std::size_t v = i % V;
    CHECK(dx[i] ==
          doctest::Approx(t.a[v] * t.dy[i] - t.b[v] - (t.x[i] - t.c[v]) * t.d[v]).epsilon(1e-12));
  }
  gradient(t.dy.data());
  CHECK(t.dy == dx);
}

TEST_CASE("for_each_block: visits every block of every sample once, with any number of workers") {
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    std::vector<int> visits(5 * 7);
    for_each_block(5, 7, device.make_stream(),
                   [&](std::size_t n, std::size_t b) { ++visits[n * 7 + b]; });
    CHECK(visits == std::vector<int>(5 * 7, 1));
    for_each_block(0, 7, device.make_stream(), [&](std::size_t, std::size_t) { ++visits[0]; });
    for_each_block(3, 0, device.make_stream(), [&](std::size_t, std::size_t) { ++visits[0]; });
    CHECK(visits[0] == 1);
  }
}

TEST_CASE("for_each_block: a block has the same worker in every call") {
  constexpr std::size_t samples = 3, blocks = 5;
  const cpu device(2);
  std::vector<std::thread::id> threads[2];
  for (auto& thread_of : threads) {
    thread_of.resize(samples * blocks);
    for_each_block(int{samples}, blocks, device.make_stream(), [&](std::size_t n, std::size_t b) {
      thread_of[n * blocks + b] = std::this_thread::get_id();
    });
  }
  CHECK(threads[0] == threads[1]);
  CHECK(threads[0].front() != threads[0].back());
}

TEST_CASE("for_each_block_range: covers all blocks once, in a single range where asked") {
  for (const int workers : {1, 2, 3})
    for (const std::size_t blocks : {1u, 4u, 5u, 64u})
      for (const bool single_range : {false, true}) {
        const cpu device(workers);
        std::vector<int> visits(blocks);
        std::atomic<std::size_t> calls = 0;
        for_each_block_range<16>(blocks, single_range, device.make_stream(),
                                 [&](std::size_t first, std::size_t last) {
                                   ++calls;
                                   for (std::size_t b = first; b < last; ++b) ++visits[b];
                                 });
        CHECK(visits == std::vector<int>(blocks, 1));
        if (single_range || blocks <= 4) CHECK(calls == 1);
        if (!single_range && blocks == 64) CHECK(calls == static_cast<std::size_t>(workers));
      }
}

TEST_CASE("in_two_passes: a block is summed over all samples, then merged, then applied to each") {
  constexpr std::size_t samples = 3;
  for (const int workers : {1, 2, 3})
    for (const std::size_t blocks : {1u, 2u, 5u, 64u})
      for (const bool single_range : {false, true}) {
        const cpu device(workers);
        std::vector<int> summed(samples * blocks), merged(blocks), applied(samples * blocks);
        std::atomic<int> early = 0;
        in_two_passes<16>(
            int{samples}, blocks, single_range, device.make_stream(),
            [&](std::size_t n, std::size_t b) { ++summed[n * blocks + b]; },
            [&](std::size_t first, std::size_t last) {
              for (std::size_t b = first; b < last; ++b) {
                ++merged[b];
                for (std::size_t n = 0; n < samples; ++n) early += summed[n * blocks + b] != 1;
              }
            },
            [&](std::size_t n, std::size_t b) {
              ++applied[n * blocks + b];
              early += merged[b] != 1;
            });
        CHECK(summed == std::vector<int>(samples * blocks, 1));
        CHECK(merged == std::vector<int>(blocks, 1));
        CHECK(applied == summed);
        CHECK(early == 0);
      }
}
