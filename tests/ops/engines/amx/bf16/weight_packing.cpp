// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/weight_packing.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("amx weight packing: both directions at once, as one by one") {
  const cpu device(2);
  for (const convolution_problem& p : {convolution_problem{{32, 4, 4}, 64, 1, 1, 0},
                                       {{64, 4, 4}, 96, 3, 1, 1},
                                       {{96, 9, 9}, 32, 3, 2, 1},
                                       {{32, 8, 8}, 32, 5, 3, 2},
                                       {{64, 8, 8}, 64, 1, 2, 0},
                                       {{48, 4, 4}, 32, 3, 1, 1}}) {
    CAPTURE(support::describe(p));
    std::vector<float> w(p.weights());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = 1e-3f * static_cast<float>(i * 7919 % 40009);
    const auto packed_alone = [&](bool backward) {
      const tile_packed_weights weights(p, backward);
      std::vector<bfloat> to(weights.size(), bfloat{0x1234});
      weights.pack(w.data(), to.data(), {});
      return to;
    };
    const std::vector<bfloat> fprop = packed_alone(false), dgrad = packed_alone(true);
    for (const bool parallel : {false, true}) {
      std::vector<bfloat> forward(fprop.size(), bfloat{0x5678}),
          backward(dgrad.size(), bfloat{0x5678});
      pack_tiles(p, w.data(), forward.data(), backward.data(),
                 parallel ? device.make_stream() : cpu::stream{});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < fprop.size(); ++i) wrong += fprop[i].bits != forward[i].bits;
      for (std::size_t i = 0; i < dgrad.size(); ++i) wrong += dgrad[i].bits != backward[i].bits;
      CHECK(wrong == 0);
    }
  }
}
