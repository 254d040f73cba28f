// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/int8/byte_correlation.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("byte_correlation: packed weights are followed by each filter's sum") {
  constexpr int V = lanes<float>;
  const byte_correlation_by<V, byte_products<byte_dots>> kernel({{5, 4, 4}, V + 1, 3, 1, 1});
  std::vector<std::int8_t> weights((V + 1) * 45, 3), packed(kernel.packed_size(), 99);
  kernel.pack(weights.data(), packed.data());
  std::vector<std::int32_t> sums(2 * V);
  const std::size_t bytes = sums.size() * sizeof sums[0];
  std::memcpy(sums.data(), packed.data() + packed.size() - bytes, bytes);
  for (int k = 0; k < 2 * V; ++k) CHECK(sums[static_cast<std::size_t>(k)] == (k <= V ? 135 : 0));
  // Nothing of another filter or channel: all others are zeros.
  CHECK(std::count(packed.begin(), packed.end(), std::int8_t{3}) == (V + 1) * 45);
}
