// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks that fetch their next tile beside the epilogue of this one: the checker finds no fault,
// and one wherever a barrier, or a wait for copies, is left out.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/persistent.hpp>
#include <cordee/ops/engines/tensor_core/prologue.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using number = cordee::half;
using tile = tensor_core_tile<32, 4>;
using kernel = persistent_kernel<number, tile, identity_prologue, store_epilogue<number>>;
constexpr int nothing = -1;

/// A block whose barrier, or wait, of this number is left out by every thread.
template <class Block>
struct lacking_block : Block {
  int barrier, wait;
  void sync() {
    if (barrier-- != 0) Block::sync();
  }
  template <int Groups>
  void wait_group() {
    if (wait-- != 0) Block::template wait_group<Groups>();
  }
};
struct lacking_kernel {
  static constexpr int threads = kernel::threads;
  kernel whole;
  int barrier, wait;
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return kernel::shared_bytes(); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    lacking_block<Block> lacking{b, barrier, wait};
    whole(lacking);
  }
};

// As many K steps as stages, so that the last one reads the memory of the sums.
constexpr convolution_problem problem{{128, 16, 8}, 32, 1, 1, 0};
constexpr int steps = 4, tiles = 3, blocks = 2;             // one block computes two tiles
constexpr int barriers = steps + 1 + 3, waits = steps + 1;  // of a tile

/// The message of the launch; empty if it passes.
std::string message(std::uint64_t seed, int barrier, int wait) {
  const device_fixture at{emulated{seed}};
  constexpr auto pixels = static_cast<std::size_t>(tiles) * tile::rows;
  const auto x = at.put(std::vector<number>(pixels * 128)),
             w = at.put(std::vector<number>(problem.weights()));
  auto y = at.put(std::vector<number>(pixels * 32));
  const kernel whole{{fprop_gemm<number>(problem, tiles),
                      x.span().data,
                      w.span().data,
                      {},
                      store_epilogue<number>{y.span().data}}};
  CHECK(whole.tiles() == std::size_t{tiles});
  return error_message([&] { at.s.launch_kernel(blocks, lacking_kernel{whole, barrier, wait}); });
}

}  // namespace

TEST_CASE("persistent blocks: no access is a race or before its copy, in any order of threads") {
  for (std::uint64_t seed = 1; seed < 6; ++seed) CHECK(message(seed, nothing, nothing) == "");
  CHECK(message(1, 2 * barriers, 2 * waits) == "");  // there are no more of them
}
TEST_CASE("persistent blocks: each barrier of a block's two tiles is needed") {
  for (int barrier = 0; barrier < 2 * barriers; ++barrier) {
    const std::string found = message(1, barrier, nothing);
    CAPTURE(barrier);
    CAPTURE(found);
    CHECK(contains(found, "race: offset "));
  }
}
TEST_CASE("persistent blocks: each wait for the copies of a K step is needed") {
  for (int wait = 0; wait < 2 * waits; ++wait) {
    if (wait % waits == steps)
      continue;  // for copies behind the last K step, of which there are none
    const std::string found = message(1, nothing, wait);
    CAPTURE(wait);
    CAPTURE(found);
    CHECK(contains(found, "pending copy: offset "));
  }
}
