// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/blocked_layout.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("blocked_layout: offset and position_of are inverse; the order is (N, C / V, H, W, V)") {
  for (const int V : {1, 3, 8, 16}) {
    constexpr extent e{10, 2, 3};
    const detail::ops::blocked_layout layout(e, V);
    CHECK(layout.size() == sample_size(e, V));
    std::size_t next = 0;
    const auto v = static_cast<std::size_t>(V);
    for (std::size_t n = 0; n < 3; ++n)
      for (std::size_t b = 0; b < channel_blocks(10, V); ++b)
        for (std::size_t p = 0; p < 6; ++p)
          for (std::size_t lane = 0; lane < v; ++lane, ++next) {
            CHECK(layout.offset({n, b * v + lane, p}) == next);
            const detail::ops::divided_layout divided(layout);
            const auto at = divided.position_of(static_cast<int>(next));
            CHECK(at.sample == static_cast<int>(n));
            CHECK(at.channel == static_cast<int>(b * v + lane));
            CHECK(at.pixel == static_cast<int>(p));
            CHECK(divided.offset(at) == static_cast<int>(next));
            const auto position = layout.position_of(next);
            CHECK(position.sample == n);
            CHECK(position.channel == b * v + lane);
            CHECK(position.pixel == p);
          }
    CHECK(next == 3 * layout.size());
  }
}

TEST_CASE("blocked_layout: the position of a vector is that of its first number") {
  for (const int V : {1, 3, 8, 24})
    for (const unsigned size : {1u, 4u, 8u}) {
      if (static_cast<unsigned>(V) % size != 0) continue;
      const detail::ops::blocked_layout layout({10, 2, 3}, V);
      const detail::ops::vector_positions positions(layout, static_cast<int>(size));
      for (unsigned i = 0; i < 3 * layout.size() / size; ++i) {
        const auto of_number = layout.position_of(std::size_t{i} * size);
        const auto of_vector = positions(static_cast<int>(i));
        CHECK(of_vector.plane == of_number.sample * layout.blocks + of_number.channel / layout.V);
        CHECK(static_cast<std::size_t>(of_vector.lane) == of_number.channel % layout.V);
        CHECK(static_cast<std::size_t>(of_vector.pixel) == of_number.pixel);
      }
    }
}
