// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/packed_weights.hpp>

#include "tests/support/engines.hpp"

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

std::vector<std::uint16_t> packed(const convolution_problem& p, bool backward,
                                  const std::vector<float>& masters, cpu::stream s = {}) {
  const tile_packed_weights weights(p, backward);
  std::vector<bfloat> to(weights.size(), bfloat{0x1234});
  weights.pack(masters.data(), to.data(), s);
  std::vector<std::uint16_t> bits;
  for (const bfloat x : to) bits.push_back(x.bits);
  return bits;
}

}  // namespace

TEST_CASE("amx packed weights: every weight once for each direction, and zeros") {
  const cpu device(2);
  for (const convolution_problem& p : {convolution_problem{{16, 8, 8}, 16, 3, 1, 1},
                                       {{3, 8, 8}, 17, 3, 1, 1},
                                       {{33, 8, 8}, 3, 5, 2, 2},
                                       {{10, 7, 7}, 32, 7, 2, 3},
                                       {{5, 4, 4}, 9, 1, 2, 0}}) {
    CAPTURE(support::describe(p));
    // Distinct numbers of bf16: bits from 0x3f80 on.
    std::vector<float> w(p.weights());
    REQUIRE(w.size() < 0x4000);
    for (std::size_t i = 0; i < w.size(); ++i)
      w[i] = bfloat{static_cast<std::uint16_t>(0x3f80 + i)}.exact();
    for (const bool backward : {false, true}) {
      auto bits = packed(p, backward, w);
      CHECK(bits == packed(p, backward, w, device.make_stream()));
      std::sort(bits.begin(), bits.end());
      REQUIRE(bits.size() >= w.size());
      const std::size_t zeros = bits.size() - w.size();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < zeros; ++i) wrong += bits[i] != 0;
      for (std::size_t i = 0; i < w.size(); ++i) wrong += bits[zeros + i] != 0x3f80 + i;
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("amx packed weights: tiles of channel pairs by filters, two filter columns to a step") {
  const convolution_problem p{{64, 4, 4}, 64, 3, 1, 1};
  std::vector<float> w(p.weights());
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 251);
  for (const bool backward : {false, true}) {
    const auto bits = packed(p, backward, w);
    REQUIRE(bits.size() == w.size());
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < bits.size(); ++at) {
      std::size_t rest = at;
      const auto digit = [&](std::size_t base) {
        const std::size_t d = rest % base;
        rest /= base;
        return d;
      };
      const std::size_t half = digit(2), n = digit(16), pair = digit(16), column = digit(2),
                        tap = digit(9), block = digit(2), columns = rest;
      const std::size_t written = columns * 32 + column * 16 + n,
                        read = block * 32 + 2 * pair + half;
      // The input gradient reads the window backward, and channels and filters are exchanged.
      const std::size_t index =
          backward ? (read * 64 + written) * 9 + 8 - tap : (written * 64 + read) * 9 + tap;
      wrong += bits[at] != bfloat::nearest(w[index]).bits;
    }
    CHECK(wrong == 0);
  }
}
