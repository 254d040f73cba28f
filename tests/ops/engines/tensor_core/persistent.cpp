// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/engines/tensor_core/persistent.hpp"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/persistent.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;
using namespace cordee::detail::ops;

namespace {
struct counting_stream : emulated::stream {
  std::size_t* blocks;  // of the last launch
  template <class Kernel>
  void launch_kernel(std::size_t n, const Kernel& kernel) const {
    *blocks = n;
    emulated::stream::launch_kernel(n, kernel);
  }
};
}  // namespace

TEST_CASE_TEMPLATE("persistent: as many blocks as tiles or fewer, the bits of one block per tile",
                   N, half, bfloat) {
  std::size_t fewest = 100, most = 0;
  for (const persistent_case& of : persistent_cases)
    for (const std::size_t blocks : {1U, 2U, 3U, 5U, 8U, 264U}) {
      CAPTURE(blocks);
      persistent_has_the_bits_of_a_block_per_tile<N>(device_fixture{emulated{blocks}}, of,
                                                     [&](const auto& kernel) {
                                                       fewest = std::min(fewest, kernel.tiles());
                                                       most = std::max(most, kernel.tiles());
                                                       return blocks;
                                                     });
    }
  CHECK(fewest == 1);
  CHECK(most == 9);
}

TEST_CASE("persistent: the launch is one block per tile, and no more than are resident") {
  tiled_fixture<> fixture;
  fixture.p = {{24, 9, 9}, 70, 1, 1, 0};  // 567 pixels of 72 filters: 5 tiles of 128 columns
  fixture.x = short_numbers<half>(size(fixture.samples) * fixture.p.in.size(), 1);
  fixture.w = short_numbers<half>(fixture.p.weights(), 2);
  const auto in = fixture.in_memory(fixture.x, fixture.p.in), weights = fixture.packed();
  auto wanted = fixture.exact_output(fixture.x);
  std::size_t launched = 0;
  const auto launch = [&](const implicit_gemm& g, const auto& epilogue, std::size_t resident) {
    launch_persistent(g, in.data(), weights.data(), identity_prologue{}, epilogue,
                      counting_stream{fixture.at.s, &launched}, [&](const auto& kernel) {
                        CHECK(kernel.tiles() == 5);
                        return resident;
                      });
  };
  const auto g = fprop_gemm<half>(fixture.p, fixture.samples);
  for (const std::size_t resident : {1U, 2U, 5U, 6U, 264U}) {
    auto y = fixture.output();
    launch(g, store_epilogue<half>{y.data()}, resident);
    CHECK(launched == std::min(resident, std::size_t{5}));
    CHECK(fixture.numbers(y) == as<half>(wanted));
  }
  std::vector<float> bias(72);  // 0 for the padding
  std::fill_n(bias.begin(), 70, 0.5f);
  for (double& sum : wanted) sum = std::max(0.0, sum + 0.5);
  auto y = fixture.output();
  launch(g, bias_relu_epilogue<half>{{y.data()}, bias.data()}, 3);
  CHECK(fixture.numbers(y) == as<half>(wanted));

  for (const convolution_problem& other : {convolution_problem{{24, 9, 9}, 70, 3, 1, 1},
                                           {{24, 9, 9}, 70, 1, 2, 0},
                                           {{24, 9, 9}, 70, 1, 1, 1}})
    CHECK_THROWS_AS(
        launch(fprop_gemm<half>(other, fixture.samples), store_epilogue<half>{y.data()}, 3),
        usage_error);
}

TEST_CASE("persistent: a multiprocessor holds as many blocks as of the plain kernel") {
  const auto check = []<class Tile>(Tile, std::size_t blocks) {
    using plain = correlation_kernel<half, Tile, identity_prologue, store_epilogue<half>, true>;
    using persistent = persistent_kernel<half, Tile, identity_prologue, store_epilogue<half>>;
    constexpr std::size_t memory = 228 * 1024, of_system = 1024;  // of an H100's or H200's
    CHECK(persistent::resident_blocks == static_cast<int>(blocks));
    CHECK(memory / (persistent::shared_bytes() + of_system) >= blocks);
    // The plain one is limited by registers (above 96 of a thread), at 32 columns by shared memory.
    if constexpr (Tile::columns > 32)
      CHECK(65536 / 128 / Tile::threads == blocks);
    else
      CHECK(memory / (plain::shared_bytes() + of_system) == blocks);
  };
  check(tensor_core_tile<32, 4>{}, 5);
  check(tensor_core_tile<64, 2>{}, 4);
  check(tensor_core_tile<128, 2>{}, 2);
}
