// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/batch_norm_tiles.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;
using detail::batch_norm_tiles;
using detail::pack;

namespace {

/// How often the threads of all blocks meet every number.
std::vector<int> meetings(const batch_norm_tiles& to) {
  std::vector<int> met(to.samples * to.in.size());
  for (std::size_t block = 0; block < to.blocks(); ++block)
    for (int thread = 0; thread < to.threads; ++thread) {
      const auto my = to.share_of(block, thread);
      CHECK((my.works || my.start >= my.last));
      for (std::size_t row = my.start; row < my.last; row += to.down)
        for (std::size_t k = 0; k < static_cast<std::size_t>(to.width); ++k)
          ++met.at(to.offset(my, row) + k);
    }
  return met;
}

/// Thread t brings t and 1; slot 0 of every column keeps the sums.
struct columns {
  static constexpr int threads = batch_norm_tiles::threads;
  batch_norm_tiles to;
  double* out;  // two a thread
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return detail::column_bytes<double>; }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    pack<double> one, other;
    one.at[1] = b.thread();
    other.at[0] = 1;
    detail::add_down(b, to, one, other);
    out[2 * b.thread()] = one.at[1];
    out[2 * b.thread() + 1] = other.at[0];
  }
};

}  // namespace

TEST_CASE("batch_norm_tiles: every number is met once, at any V, width and group") {
  for (const extent& e : {extent{20, 3, 5}, extent{1, 1, 1}, extent{3, 30, 29}, extent{70, 9, 8}})
    for (const int V : {1, 3, 8, 24, 72, 200})
      for (const int width : {1, 4, 8})
        for (const int group : {0, 2})
          for (const int samples : {0, 1, 5}) {
            if (V % width != 0) continue;
            INFO(to_text(e), ", V ", V, ", width ", width, ", group ", group);
            const batch_norm_tiles to({e, group}, samples, V, width);
            CHECK(meetings(to) == std::vector<int>(to.samples * to.in.size(), 1));
          }
}

TEST_CASE("batch_norm_tiles: the chunks' rows are the group's, and enough blocks are enough") {
  // A stem, a late layer with many channels, a small network, and the engine reference's layout.
  const auto check = [](const extent& e, int samples, int V, int width) {
    INFO(to_text(e), ", V ", V);
    const batch_norm_tiles to({e, 0}, samples, V, width);
    std::size_t rows = 0;
    for (std::size_t k = 0; k < to.chunks; ++k) rows += to.rows_of(0, k);
    CHECK(rows == static_cast<std::size_t>(samples) * e.pixels());
    CHECK(to.rows_of(0, to.chunks - 1) > 0);
    CHECK(to.chunks * to.tiles <= to.enough_blocks + to.tiles);
    CHECK(to.across * to.down <= to.threads);
    CHECK(to.across * to.down > to.threads * 3 / 4);
  };
  check({64, 112, 112}, 256, 64, 8);
  check({2048, 7, 7}, 256, 2048, 8);
  check({16, 32, 32}, 128, 16, 8);
  check({64, 56, 56}, 64, 1, 1);
}

TEST_CASE("batch_norm_tiles: a column's sum is that of its threads, whatever their number") {
  for (const int V : {2, 6, 10, 26, 32, 200}) {
    const batch_norm_tiles to({{V, 40, 40}, 0}, 1, V, 2);
    for (const std::uint64_t seed : {1u, 2u}) {
      std::vector<double> out(2 * batch_norm_tiles::threads);
      emulated(seed).open().launch(1, columns{to, out.data()});
      for (std::size_t column = 0; column < to.across; ++column) {
        double sum = 0;
        for (std::size_t slot = 0; slot < to.down; ++slot)
          sum += static_cast<double>(slot * to.across + column);
        CHECK(out[2 * column] == sum);
        CHECK(out[2 * column + 1] == static_cast<double>(to.down));
      }
    }
  }
}
