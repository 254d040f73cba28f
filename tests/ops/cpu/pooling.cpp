// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/pooling.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <int X, int Y>
struct blocks {
  static constexpr int VX = X, VY = Y;
};

/// The index of channel c of pixel p of sample n.
std::size_t index(const extent& e, int block, std::size_t n, std::size_t c, std::size_t p) {
  const auto v = static_cast<std::size_t>(block);
  return n * sample_size(e, block) + (c / v * e.pixels() + p) * v + c % v;
}

/// Numbers in blocks, with zero padding channels.
std::vector<double> activations(const extent& e, int block, std::size_t samples,
                                std::uint64_t seed) {
  const auto numbers = normal_numbers(samples * e.size(), seed);
  std::vector<double> x(samples * sample_size(e, block), 0.0);
  std::size_t next = 0;
  for (std::size_t n = 0; n < samples; ++n)
    for (std::size_t c = 0; c < static_cast<std::size_t>(e.channels); ++c)
      for (std::size_t p = 0; p < e.pixels(); ++p) x[index(e, block, n, c, p)] = numbers[next++];
  return x;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

TEST_CASE_TEMPLATE("average_pool: every channel is the mean of its pixels", B, blocks<1, 1>,
                   blocks<3, 3>, blocks<8, 8>, blocks<16, 16>) {
  constexpr int V = B::VX;
  constexpr extent e{5, 3, 4};
  for (const std::size_t samples : {0u, 1u, 5u}) {
    const cpu device(2);
    const auto x = activations(e, V, samples, 1);
    std::vector<double> y(samples * channel_blocks(5, V) * V, 7.0);
    average_pool_forward<double, V>(e, static_cast<int>(samples), x.data(), y.data(),
                                    device.make_stream());
    for (std::size_t n = 0; n < samples; ++n)
      for (std::size_t c = 0; c < channel_blocks(5, V) * V; ++c) {
        double sum = 0;
        for (std::size_t p = 0; p < 12; ++p) sum += x[index(e, V, n, c, p)];
        CHECK(y[n * channel_blocks(5, V) * V + c] == doctest::Approx(sum / 12).epsilon(1e-14));
      }
  }
}

TEST_CASE_TEMPLATE("average_pool: backward is the adjoint of forward", B, blocks<1, 1>,
                   blocks<8, 8>) {
  constexpr int V = B::VX;
  constexpr extent e{5, 3, 4};
  const auto x = activations(e, V, 3, 1), dy = activations({5, 1, 1}, V, 3, 2);
  std::vector<double> y(dy.size()), dx(x.size());
  average_pool_forward<double, V>(e, 3, x.data(), y.data(), {});
  average_pool_backward<double, V>(e, 3, dy.data(), dx.data(), {});
  CHECK(dot(y, dy) == doctest::Approx(dot(x, dx)).epsilon(1e-12));
}

TEST_CASE_TEMPLATE("subsample: half of the added channels on each side, with blocks of any size", B,
                   blocks<1, 1>, blocks<4, 8>, blocks<8, 8>, blocks<16, 16>, blocks<2, 16>) {
  constexpr extent in{16, 5, 6}, out{32, 3, 3};
  constexpr subsample_problem p{in, out};
  const cpu device(2);
  const auto x = activations(in, B::VX, 3, 1);
  std::vector<double> y(3 * sample_size(out, B::VY), 7.0);
  subsample_forward<double, B::VX, B::VY>(p, 3, x.data(), y.data(), device.make_stream());
  for (std::size_t n = 0; n < 3; ++n)
    for (std::size_t k = 0; k < 32; ++k)
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 3; ++j) {
          const double expected =
              k < 8 || k >= 24 ? 0 : x[index(in, B::VX, n, k - 8, 2 * i * 6 + 2 * j)];
          CHECK(y[index(out, B::VY, n, k, i * 3 + j)] == expected);
        }
}

TEST_CASE_TEMPLATE("subsample: backward is the adjoint of forward", B, blocks<1, 1>, blocks<8, 8>,
                   blocks<4, 8>, blocks<16, 16>) {
  constexpr extent in{6, 7, 4}, out{12, 4, 2};
  constexpr subsample_problem p{in, out};
  const auto x = activations(in, B::VX, 3, 1), dy = activations(out, B::VY, 3, 2);
  std::vector<double> y(dy.size(), 7.0), dx(x.size(), 7.0);
  subsample_forward<double, B::VX, B::VY>(p, 3, x.data(), y.data(), {});
  subsample_backward<double, B::VX, B::VY>(p, 3, dy.data(), dx.data(), {});
  CHECK(dot(y, dy) == doctest::Approx(dot(x, dx)).epsilon(1e-12));
  CHECK(dot(y, y) > 0);
}
