// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/batch_norm_tiles.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;
using detail::ops::batch_norm_tiles;
using detail::ops::vec_16b;

namespace {

/// How often the threads of all blocks visit each number.
std::vector<int> visits(const batch_norm_tiles& tiling) {
  std::vector<int> count(tiling.samples * tiling.in.size());
  for (std::size_t block = 0; block < tiling.blocks(); ++block)
    for (int thread = 0; thread < tiling.threads; ++thread) {
      const auto rows = tiling.rows_of_thread(block, thread);
      CHECK((rows.active || rows.start >= rows.last));
      for (std::size_t row = rows.start; row < rows.last; row += tiling.down)
        for (std::size_t k = 0; k < static_cast<std::size_t>(tiling.width); ++k)
          ++count.at(tiling.offset(rows, row) + k);
    }
  return count;
}

/// Thread t contributes t and 1; slot 0 of every column receives the sums.
struct columns {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles tiling;
  double* out;  // two a thread
  [[nodiscard]] static constexpr std::size_t shared_bytes() {
    return detail::ops::column_bytes<double>;
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    vec_16b<double> first, second;
    first.value[1] = b.thread();
    second.value[0] = 1;
    detail::ops::sum_columns(b, tiling, first, second);
    out[2 * b.thread()] = first.value[1];
    out[2 * b.thread() + 1] = second.value[0];
  }
};

}  // namespace

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

TEST_CASE("batch_norm_tiles: a column's sum is that of its threads, whatever their number") {
  for (const int V : {2, 6, 10, 26, 32, 200}) {
    const batch_norm_tiles tiling({{V, 40, 40}, 0}, 1, V, 2);
    for (const std::uint64_t seed : {1u, 2u}) {
      std::vector<double> out(2 * batch_norm_tiles::threads);
      emulated(seed).make_stream().launch_kernel(1, columns{tiling, out.data()});
      for (std::size_t column = 0; column < tiling.across; ++column) {
        double sum = 0;
        for (std::size_t slot = 0; slot < tiling.down; ++slot)
          sum += static_cast<double>(slot * tiling.across + column);
        CHECK(out[2 * column] == sum);
        CHECK(out[2 * column + 1] == static_cast<double>(tiling.down));
      }
    }
  }
}
