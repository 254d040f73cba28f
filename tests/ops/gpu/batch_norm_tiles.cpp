// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/batch_norm_tiles.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

/// How often the threads of all blocks visit each number.
std::vector<int> visits(const batch_norm_tiles& tiling) {
  std::vector<int> count(tiling.samples * tiling.in.size());
  for (std::size_t block = 0; block < tiling.blocks(); ++block)
    for (int thread = 0; thread < tiling.threads; ++thread) {
      const auto rows = tiling.rows_of_thread(block, thread);
      CHECK((rows.active || rows.start >= rows.last));
      if (rows.start >= rows.last) continue;
      std::size_t row = rows.start;
      for (auto at = tiling.first_row(rows); at.left > 0; tiling.advance(at), row += tiling.down) {
        if (row >= rows.last || at.offset != tiling.offset(rows.group, row, rows.lane))
          FAIL("row ", row);
        for (std::size_t k = 0; k < static_cast<std::size_t>(tiling.width); ++k)
          ++count.at(at.offset + k);
      }
    }
  return count;
}

/// Thread t contributes t and 1 to each of its two channels; `out` receives the channels' sums.
struct columns {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  double* out;  // (lanes, 2)
  using sums = column_sums<double, 2>;
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return sums::bytes; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    vec_16b<double> first, second;
    first.value[0] = 1000 + b.thread();
    first.value[1] = b.thread();
    second.value[0] = second.value[1] = 1;
    sums(b, tiling, first, second)
        .for_each_channel(
            b, tiling, tiling.position_of(b.index()),
            [&](std::size_t g, std::size_t chunk, std::size_t lane, double x, double y) {
              CHECK(g == 0);
              CHECK(chunk == 0);
              out[2 * lane] += x;
              out[2 * lane + 1] += y;
            });
  }
};

/// The rows that for_each_row<Depth> uses, with the number of rows loaded by then.
template <int Depth>
std::vector<std::pair<std::size_t, int>> rows_used(const batch_norm_tiles& tiling, unsigned count) {
  int loaded = 0;
  std::vector<std::pair<std::size_t, int>> used;
  tiling.for_each_row<Depth>(
      batch_norm_tiles::row_cursor{0, 0, count}, [&](std::size_t at) { return ++loaded, at; },
      [&](std::size_t at, std::size_t of_load) {
        CHECK(at == of_load);
        used.emplace_back(at, loaded);
      });
  return used;
}

}  // namespace

TEST_CASE(
    "batch_norm_tiles: for_each_row uses every row in order, `Depth` loaded before the first") {
  const batch_norm_tiles tiling({{8, 5, 5}}, 40, 8, 8);
  for (unsigned count = 0; count < 14; ++count) {
    const auto one = rows_used<1>(tiling, count), two = rows_used<2>(tiling, count),
               four = rows_used<4>(tiling, count);
    REQUIRE(one.size() == count);
    REQUIRE(two.size() == count);
    REQUIRE(four.size() == count);
    batch_norm_tiles::row_cursor at{0, 0, count};
    for (unsigned row = 0; row < count; ++row, tiling.advance(at)) {
      CHECK(one[row] == std::pair(at.offset, static_cast<int>(row + 1)));
      const auto loaded = [&](unsigned depth) {  // the rest, one by one
        return static_cast<int>(row < count / depth * depth ? row / depth * depth + depth
                                                            : row + 1);
      };
      CHECK(two[row] == std::pair(at.offset, loaded(2)));
      CHECK(four[row] == std::pair(at.offset, loaded(4)));
    }
  }
}

TEST_CASE("batch_norm_tiles: every number is visited once, for any V, width and group") {
  for (const extent& e : {extent{20, 3, 5}, extent{1, 1, 1}, extent{3, 30, 29}, extent{70, 9, 8}})
    for (const int V : {1, 3, 8, 24, 72, 200})
      for (const int width : {1, 4, 8})
        for (const int group : {0, 2})
          for (const int samples : {0, 1, 5}) {
            if (V % width != 0) continue;
            INFO(describe(e), ", V ", V, ", width ", width, ", group ", group);
            const batch_norm_tiles tiling({e, group}, samples, V, width);
            CHECK(visits(tiling) == std::vector<int>(tiling.samples * tiling.in.size(), 1));
          }
}

TEST_CASE(
    "batch_norm_tiles: the chunks cover the group's rows, with no more blocks than enough_blocks") {
  // A stem, a late layer with many channels, a small network, and the engine reference's layout.
  const auto check = [](const extent& e, int samples, int V, int width) {
    INFO(describe(e), ", V ", V);
    const batch_norm_tiles tiling({e, 0}, samples, V, width);
    std::size_t rows = 0;
    for (std::size_t k = 0; k < tiling.chunks; ++k) rows += tiling.rows_of(0, k);
    CHECK(rows == static_cast<std::size_t>(samples) * e.pixels());
    CHECK(tiling.rows_of(0, tiling.chunks - 1) > 0);
    CHECK(tiling.chunks * tiling.tiles <= tiling.enough_blocks + tiling.tiles);
    CHECK(tiling.across * tiling.down <= tiling.threads);
    CHECK(tiling.across * tiling.down > tiling.threads * 3 / 4);
  };
  check({64, 112, 112}, 256, 64, 8);
  check({2048, 7, 7}, 256, 2048, 8);
  check({16, 32, 32}, 128, 16, 8);
  check({64, 56, 56}, 64, 1, 1);
}

TEST_CASE("batch_norm_tiles: a channel's sum is that of its column's threads, written once") {
  for (const int V : {2, 6, 10, 26, 32, 200}) {
    const batch_norm_tiles tiling({{V, 40, 40}, 0}, 1, V, 2);
    const auto lanes = static_cast<std::size_t>(V);
    for (const std::uint64_t seed : {1u, 2u}) {
      std::vector<double> out(2 * lanes, 0.0);
      emulated(seed).make_stream().launch_kernel(tiling.tiles, columns{tiling, out.data()});
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::size_t column = lane / 2 % tiling.across;
        double sum = 0;
        for (std::size_t slot = 0; slot < tiling.down; ++slot)
          sum += static_cast<double>(slot * tiling.across + column + (lane % 2 == 0 ? 1000 : 0));
        CHECK(out[2 * lane] == sum);
        CHECK(out[2 * lane + 1] == static_cast<double>(tiling.down));
      }
    }
  }
}
