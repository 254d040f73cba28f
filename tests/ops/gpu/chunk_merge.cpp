// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/chunk_merge.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee::detail::ops;
using namespace support;

namespace {

/// Adds the first numbers, and the rows.
struct first_and_rows {
  CORDEE_DEVICE channel_pair term(double rows, const channel_pair& of, const channel_pair&) const {
    return {of.first, rows};
  }
  CORDEE_DEVICE channel_pair total(const channel_pair& sum, double, const channel_pair&) const {
    return sum;
  }
};
/// Two tiles of five channels, of the second of which three are; entries are written by the blocks.
struct adding_kernel {
  static constexpr int threads = 32, channels = 5;
  chunk_merge merge;
  double *sums, *rows;  // (lanes)

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return 2 * threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t chunk = b.index() / 2, tile = b.index() % 2;
    const merge_place at{.group = 0,
                         .chunk = chunk,
                         .tile = tile,
                         .first_lane = 5 * tile,
                         .channels = channels,
                         .active = tile == 0 ? 5 : 3,
                         .rows = 4 * merge.chunks - 1};  // the last chunk has a row less
    if (b.thread() < at.active) {
      const std::size_t lane = at.first_lane + static_cast<std::size_t>(b.thread());
      merge.firsts[merge.entry(0, chunk, lane)] = static_cast<double>(chunk * 100 + lane);
      merge.seconds[merge.entry(0, chunk, lane)] = 4;
    }
    merge_chunks<threads>(b, at, merge, b.template shared<double>(2 * threads), first_and_rows{},
                          [&](std::size_t, std::size_t lane, const channel_pair& of) {
                            sums[lane] = of.first;
                            rows[lane] = of.second;
                          });
  }
};

}  // namespace

TEST_CASE("chunk_merge: of any number of chunks every entry and every row is added once") {
  for (const std::size_t chunks : {1u, 2u, 3u, 4u, 5u, 17u, 40u, 700u})
    for (const std::uint64_t seed : {1u, 2u}) {
      CAPTURE(chunks);
      chunk_merge merge(1, chunks, 4, 2, 8);
      CHECK(merge.set * merge.set >= chunks);
      CHECK((merge.set - 1) * (merge.set - 1) < chunks);
      CHECK(merge.sets * merge.set >= chunks);
      const auto s = emulated(seed).make_stream();
      std::vector<double> memory(merge.numbers()), sums(8, -1.0), rows = sums;
      merge.use_memory(memory.data(), s);
      s.launch_kernel(2 * chunks, adding_kernel{merge, sums.data(), rows.data()});
      for (std::size_t lane = 0; lane < 8; ++lane) {
        CHECK(sums[lane] == static_cast<double>(50 * chunks * (chunks - 1) + chunks * lane));
        CHECK(rows[lane] == static_cast<double>(4 * chunks - 1));
      }
    }
}
