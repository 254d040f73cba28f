// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/filter_tile.hpp>

using namespace cordee::detail::ops;
using cordee::convolution_problem;

namespace {

/// The index in (K, C, R, S) of each number that a walk visits, -1 for padding and -2 where it does
/// not come; a number that is visited twice, or has no place in shared memory, fails.
template <class Walk>
std::vector<long> visited(const filter_tile& tile, std::size_t size, const Walk& walk) {
  std::vector<long> from(size, -2);
  std::size_t wrong = 0;
  const krsc_layout& l = tile.layout;
  for (std::size_t block = 0; block < tile.blocks(); ++block)
    for (int thread = 0; thread < filter_tile::threads; ++thread)
      walk(block, thread, [&](unsigned k, unsigned i, std::size_t index, bool is_weight) {
        const bool is_valid = index < size && from[index] == -2 &&
                              k * tile.pitch + i < tile.numbers() && i < tile.pitch;
        wrong += is_valid ? 0 : 1;
        if (!is_valid) return;
        const unsigned row = static_cast<unsigned>(block) / tile.across * tile.filters + k,
                       first = static_cast<unsigned>(block) % tile.across * tile.channels * l.taps;
        from[index] = is_weight ? static_cast<long>(row * l.channels * l.taps + first + i) : -1;
      });
  REQUIRE(wrong == 0);
  return from;
}

}  // namespace

TEST_CASE("filter_tile: tiles visit every number of each order once, by its definition") {
  struct wanted {
    unsigned filters, channels;
  };
  for (const auto& [problem, channels, filters] :
       {std::tuple{convolution_problem{{3, 9, 9}, 17, 7}, 8, 24},
        {convolution_problem{{40, 4, 4}, 50, 3}, 48, 56},
        {convolution_problem{{130, 4, 4}, 70, 1}, 136, 72},
        {convolution_problem{{2, 4, 4}, 3, 67}, 8, 8}})
    for (const wanted& w : {wanted{1, 32}, {8, 32}, {16, 32}, {64, 64}, {1, 4096}}) {
      const filter_tile tile({problem, channels, filters}, w.filters, w.channels);
      const krsc_layout& l = tile.layout;
      CAPTURE(l.taps);
      CAPTURE(tile.filters);
      CAPTURE(tile.channels);
      CHECK(tile.numbers() <= filter_tile::most_numbers);
      const auto master =
          visited(tile, problem.weights(), [&](auto block, int thread, const auto& f) {
            tile.for_each_master(block, thread, [&](unsigned k, unsigned i, std::size_t index) {
              f(k, i, index, true);
            });
          });
      for (std::size_t i = 0; i < master.size(); ++i)
        if (master[i] != static_cast<long>(i)) FAIL("weight ", i, " is ", master[i]);
      const auto krsc = visited(tile, l.size(), [&](auto block, int thread, const auto& f) {
        tile.for_each_krsc(block, thread, f);
      });
      const auto crsk = visited(tile, l.size(), [&](auto block, int thread, const auto& f) {
        tile.for_each_crsk(block, thread, f);
      });
      for (unsigned k = 0; k < l.padded_filters; ++k)
        for (unsigned c = 0; c < l.padded_channels; ++c)
          for (unsigned tap = 0; tap < l.taps; ++tap) {
            const long from = k < l.filters && c < l.channels
                                  ? static_cast<long>((k * l.channels + c) * l.taps + tap)
                                  : -1;
            if (krsc[(k * l.taps + tap) * l.padded_channels + c] != from ||
                crsk[(c * l.taps + tap) * l.padded_filters + k] != from)
              FAIL("filter ", k, ", channel ", c, ", tap ", tap);
          }
    }
}
