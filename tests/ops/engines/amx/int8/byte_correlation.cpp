// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/ops/engines/amx/int8/byte_correlation.hpp>

#include "tests/ops/engines/amx/int8/tile_engine.hpp"
#include "tests/ops/engines/amx/tested_unit.hpp"
#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using by_tiles = tile_engine<tested_unit>;

}  // namespace

TEST_CASE("byte_correlation_by_tiles: the sums of the definition, of shapes of many kinds" *
          doctest::skip(!has_tested_unit())) {
  for (const convolution_problem& p : many_shapes) check_bytes<by_tiles>(p, 2, 77);
}

TEST_CASE("byte_correlation_by_tiles: any window, stride, padding and number of channels" *
          doctest::skip(!has_tested_unit())) {
  constexpr int channels[] = {1, 2, 3, 4, 5, 10, 16, 17, 31, 32, 33, 48, 64, 65, 96, 130},
                windows[] = {1, 2, 3, 5, 7}, all_samples[] = {1, 2, 3, 5};
  random_sequence draw(3, purpose::test, 0, 0);
  const auto below = [&](int n) {
    return static_cast<int>(draw.below(static_cast<std::uint32_t>(n)));
  };
  for (int i = 0; i < 80; ++i) {
    convolution_problem p;
    p.in.channels = channels[below(std::size(channels))];
    p.filters = channels[below(std::size(channels))];
    p.window = windows[below(std::size(windows))];
    p.stride = 1 + below(3);
    p.padding = below(p.window);
    p.in.height = std::max(1, p.window - 2 * p.padding) + below(7);
    p.in.width = std::max(1, p.window - 2 * p.padding) + below(20 - p.window);
    check_bytes<by_tiles>(p, all_samples[below(4)], below(256));
  }
}

TEST_CASE("byte_correlation_by_tiles: the largest sums, and bands of rows" *
          doctest::skip(!has_tested_unit())) {
  for (const int zero_point : {0, 255}) {
    check_extreme_bytes<by_tiles>({{70, 3, 3}, 17, 3, 1, 1}, zero_point);
    check_extreme_bytes<by_tiles>({{3, 7, 8}, 9, 7, 2, 3}, zero_point);
  }
  check_bytes<by_tiles>({{64, 80, 70}, 3, 3, 1, 1}, 1, 9);  // several bands
  check_bytes<by_tiles>({{2, 40, 3000}, 3, 3, 2, 1}, 1, 9);
  check_bytes<by_tiles>({{1000, 30, 16}, 3, 1, 2, 0}, 2, 9);  // samples one by one, and in bands
}

TEST_CASE("byte_correlation_by_tiles: bits do not depend on the number of workers" *
          doctest::skip(!has_tested_unit())) {
  for (const int workers : {1, 2, 3})
    check_bytes<by_tiles>({{16, 6, 6}, 33, 3, 1, 1}, 11, 9, device_fixture{cpu(workers)});
}
