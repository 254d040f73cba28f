// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/channel_registers.hpp>
#include <cordee/testing/gradient.hpp>

#include "tests/support/half_tensor.hpp"
#include "tests/support/numbers.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace cordee::detail::precision;
using namespace support;

namespace {

/// bf16 in `lanes` of which a register has as many floats.
template <int V>
constexpr bool is_bfloat_pair =
    channel_registers<bfloat, V>::in_pairs && channel_registers<bfloat, V>::is_interleaved;

}  // namespace

static_assert(register_lanes<double, 1> == 1 && register_lanes<double, 3> == 1);
static_assert(register_lanes<float, 4 * lanes<float>> == lanes<float>);
static_assert(channel_registers<float, lanes<float>>::channels == lanes<float>);
static_assert(!channel_registers<float, lanes<float>>::in_pairs);
static_assert(channel_registers<float, 2 * lanes<float>>::channels == 2 * lanes<float>);
static_assert(channel_registers<half, 2 * lanes<float>>::in_pairs);
static_assert(is_bfloat_pair<lanes<float>> && channel_registers<bfloat, lanes<float>>::pixels == 2);
static_assert(is_bfloat_pair<2 * lanes<float>> &&
              channel_registers<bfloat, 2 * lanes<float>>::pixels == 1);
static_assert(!is_bfloat_pair<1> && !is_bfloat_pair<3>);

TEST_CASE_TEMPLATE("channel_registers: each number meets the coefficient of its channel", K,
                   HALF_FORMS) {
  using N = typename K::number;
  constexpr int V = K::V;
  using R = channel_registers<N, V>;
  constexpr std::size_t pixels = 5;
  const half_tensor<N> x(pixels * V, 1);
  const auto row = normal_numbers<float>(V, 2);
  std::vector<N> y(pixels * V + 1, to_number<N>(7));
  for (int lane = 0; lane < V; lane += R::channels) {
    const auto a = R::load_row(row.data() + lane);
    R::for_each_pixel(pixels, [&](auto some, std::size_t p) {
      const std::size_t i = p * V + static_cast<std::size_t>(lane);
      some.store(y.data() + i, some.load(x.stored.data() + i) * a);
    });
  }
  for (std::size_t i = 0; i < pixels * V; ++i)
    CHECK(y[i].bits == N::nearest(x.wide_copy[i] * row[i % V]).bits);
  CHECK(to_double(y.back()) == 7);  // behind the last pixel
}

TEST_CASE("channel_registers: of a single pixel the place of another one is zero") {
  constexpr int V = lanes<float>;
  using R = channel_registers<bfloat, V>;
  const half_tensor<bfloat> x(2 * V, 1);
  const auto part = R::first_pixel::load(x.stored.data());
  const auto masked = R::first_pixel::masked(R::load(x.stored.data()));
  for (int k = 0; k < V; ++k) {
    const auto channel = static_cast<std::size_t>(R::channel_of(k));
    const auto& both = k < V / 2 ? part.first : part.second;
    const auto& kept = k < V / 2 ? masked.first : masked.second;
    CHECK(both[k % (V / 2)] == x.wide_copy[channel]);
    CHECK(kept[k % (V / 2)] == x.wide_copy[channel]);
    CHECK(both[V / 2 + k % (V / 2)] == 0);
    CHECK(kept[V / 2 + k % (V / 2)] == 0);
  }
}

TEST_CASE("channel_registers: bf16 is rounded to nearest, NaN stays NaN") {
  constexpr int V = 2 * lanes<float>;
  using R = channel_registers<bfloat, V>;
  constexpr float infinity = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  auto x = normal_numbers<float>(V, 3);
  const float special[] = {0.0f,      -0.0f,     infinity,    -infinity,   nan,          3.4e38f,
                           0x1p-133f, 0x1p-140f, 1.00390625f, 1.01171875f, 0x1.fffffep0f};
  for (std::size_t k = 0; k < std::size(special) && k < V; ++k) x[k] = special[k];
  std::vector<bfloat> y(V);
  R::store(y.data(), R::load_row(x.data()));
  for (std::size_t k = 0; k < V; ++k) {
    CAPTURE(x[k]);
    if (std::isnan(x[k]))
      CHECK(std::isnan(y[k].exact()));
    else
      CHECK(y[k].bits == bfloat::nearest(x[k]).bits);
  }
}

TEST_CASE("where_positive, rectified: NaN is not positive, and is not rectified") {
  constexpr int W = lanes<float>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  vec<float, W> y = vec<float, W>{} + 1, g = y + 4;
  y[0] = 0, y[1] = -1, y[2] = nan;
  const register_pair<float, W> masked =
      where_positive(register_pair<float, W>{y, g}, register_pair<float, W>{g, y});
  CHECK(masked.first[0] == 0);
  CHECK(masked.first[1] == 0);
  CHECK(masked.first[2] == 0);
  CHECK(masked.first[3] == 5);
  CHECK(masked.second[1] == -1);
  const auto z = rectified(register_pair<float, W>{y, g});
  CHECK(z.first[1] == 0);
  CHECK(std::isnan(z.first[2]));
  CHECK(z.second[0] == 5);
}
