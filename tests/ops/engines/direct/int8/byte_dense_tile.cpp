// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/int8/byte_dense_tile.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::drawn;

namespace {

constexpr int V = lanes<float>;

/// Stores the sums, plus the number of their block.
struct numbered_sums {
  struct block {
    std::int32_t* y;
    std::int32_t number;
    void operator()(std::size_t at, sum_vec<V> sum) const {
      store<std::int32_t, V>(y + at, sum + number);
    }
    void operator()(std::size_t at, sum_vec<V> a, sum_vec<V> b, sum_vec<V> c, sum_vec<V> d) const {
      for (const auto& sum : {a, b, c, d}) (*this)(std::exchange(at, at + V), sum);
    }
  };
  [[nodiscard]] block of_block(std::size_t b, std::int32_t* y) const {
    return {y, static_cast<std::int32_t>(b)};
  }
  void prefetch(const std::int32_t*) const {}
};

template <int Pixels>
void check(int blocks) {
  const std::size_t pixels = Pixels, filters = 2 * V,
                    channels = static_cast<std::size_t>(blocks) * V;
  const auto x = drawn<std::uint8_t>(channels * pixels, 8, 1);  // (C/V, pixels, V)
  const auto w = drawn<std::int8_t>(filters * channels, 7, 2);  // (K/V, C/4, V, 4)
  const auto initial = drawn<std::int32_t>(filters, 20, 3);
  std::vector<std::int32_t> y(filters * pixels), expected(y);
  for (std::size_t k = 0; k < filters; ++k)
    for (std::size_t p = 0; p < pixels; ++p) {
      std::int32_t sum = initial[k] + static_cast<std::int32_t>(k / V);
      for (std::size_t c = 0; c < channels; ++c)
        sum += x[(c / V * pixels + p) * V + c % V] *
               w[((k / V * channels + c) / 4 * V + k % V) * 4 + c % 4];
      expected[(k / V * pixels + p) * V + k % V] = sum;
    }
  byte_tile<std::int32_t> at;
  at.x = x.data();
  at.x_block = Pixels * V;
  at.w = w.data();
  at.w_block = blocks * V * V;
  at.initial = initial.data();
  at.y = y.data();
  at.y_block = Pixels * V;
  at.blocks = blocks;
  byte_dense_sums<V, byte_dots, 2, Pixels>(at, numbered_sums{});
  CHECK(y == expected);
}

}  // namespace

TEST_CASE("byte_dense_tile: the sums of two blocks of filters, given to the epilogue") {
  for (const int blocks : {1, 2, 3}) {
    check<1>(blocks);
    check<4>(blocks);
    check<7>(blocks);
    check<14>(blocks);
  }
}
