// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/block_max.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

/// out[block, thread] <- the maximum of the block's numbers
struct max_kernel {
  static constexpr int threads = 64;
  const double* x;
  double* out;
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    out[i] = detail::ops::block_max<threads>(b, x[i]);
  }
};

}  // namespace

TEST_CASE("block_max: every thread receives its block's maximum, whichever thread has it") {
  for (std::size_t thread = 0; thread < 64; ++thread) {
    std::vector<double> x(128, -3), out(128);
    x[thread] = 5;
    x[64 + thread] = -1;
    emulated::stream(thread + 1).launch_kernel(2, max_kernel{x.data(), out.data()});
    for (std::size_t i = 0; i < 128; ++i) CHECK(out[i] == (i < 64 ? 5 : -1));
  }
}
