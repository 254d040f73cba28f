// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/packed_byte_tiles.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("packed_byte_tiles: every weight once, zeros between, and each filter's sum") {
  constexpr int V = lanes<float>;
  for (const convolution_problem& p : {convolution_problem{{3, 9, 9}, 5, 7, 2, 3},
                                       convolution_problem{{70, 4, 4}, 2 * V + 1, 3, 1, 1}}) {
    const byte_planes<V> planes(p);
    const packed_byte_tiles<V> form(planes);
    std::vector<std::int8_t> weights(p.weights()), packed(form.size(), std::int8_t{99});
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<std::int8_t>(1 + 37 * i % 127);
    form.pack(planes, weights.data(), packed.data());
    std::vector<std::int8_t> kept;
    std::copy_if(packed.begin(), packed.begin() + form.tiles_size, std::back_inserter(kept),
                 [](std::int8_t w) { return w != 0; });
    auto expected = weights;
    std::sort(kept.begin(), kept.end());
    std::sort(expected.begin(), expected.end());
    CHECK(kept == expected);
    const std::size_t filter = weights.size() / static_cast<std::size_t>(p.filters);
    for (std::size_t k = 0; k < static_cast<std::size_t>(p.filters); ++k) {
      const auto first = weights.begin() + static_cast<std::ptrdiff_t>(k * filter);
      CHECK(form.sum_of(packed.data(), k) ==
            std::accumulate(first, first + static_cast<std::ptrdiff_t>(filter), 0));
    }
  }
}
