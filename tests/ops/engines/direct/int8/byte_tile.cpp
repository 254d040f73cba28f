// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/direct/engine.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE(
    "byte_tile: the sum of four products equals the definition, with and without the instruction") {
  constexpr int V = lanes<float>;
  const auto w = random_integers<std::int8_t>(4 * V, 1, -127, 127);
  for (const std::uint8_t edge : {std::uint8_t{0}, std::uint8_t{128}, std::uint8_t{255}}) {
    const std::uint8_t x[4] = {edge, 1, 255, 77};
    std::int32_t four;
    std::memcpy(&four, x, 4);
    detail::ops::sum_vec<V> weights, sum{};
    std::memcpy(&weights, w.data(), sizeof weights);
    sum += 1000;
    const auto with = detail::ops::byte_dot<V, byte_dots>::add(sum, four, weights),
               without = detail::ops::byte_dot<V, false>::add(sum, four, weights);
    for (int v = 0; v < V; ++v) {
      std::int32_t wanted = 1000;
      for (int i = 0; i < 4; ++i) wanted += x[i] * w[size(4 * v + i)];
      CHECK(with[v] == wanted);
      CHECK(without[v] == wanted);
    }
  }
}

TEST_CASE("byte_tile: rows of every length, in tiles of every length") {
  for (int width = 1; width <= 40; ++width) {
    check_bytes<direct>({{16, 2, width}, 16, 3, 1, 1}, 1, 100);
    check_bytes<direct>({{16, 2, width}, 48, 3, 1, 1}, 1, 100);
    check_bytes<direct>({{32, 2, width}, 16, 3, 1, 1}, 1, 100);
    check_bytes<direct>({{32, 2, width}, 32, 3, 2, 1}, 1, 100);
    check_bytes<direct>({{3, 2, width}, 16, 3, 1, 1}, 1, 100);
  }
}

TEST_CASE("byte_tile: window rows of few channels, of any number of bytes") {
  for (const int channels : {1, 2, 3, 4})
    for (const int window : {1, 2, 3, 5, 7})
      check_bytes<direct>({{channels, 8, 9}, 16, window, 1, window / 2}, 2, 100);
}
