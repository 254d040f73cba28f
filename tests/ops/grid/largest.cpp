// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/largest.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

/// out[block, thread] <- the largest of the block's numbers
struct largest_body {
  static constexpr int threads = 64;
  const double* x;
  double* out;
  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t i = b.index() * threads + static_cast<std::size_t>(b.thread());
    out[i] = detail::largest_of<threads>(b, x[i]);
  }
};

}  // namespace

TEST_CASE("largest_of: every thread has the largest of its block, wherever it stood") {
  for (std::size_t place = 0; place < 64; ++place) {
    std::vector<double> x(128, -3), out(128);
    x[place] = 5;
    x[64 + place] = -1;
    emulated::stream(place + 1).launch(2, largest_body{x.data(), out.data()});
    for (std::size_t i = 0; i < 128; ++i) CHECK(out[i] == (i < 64 ? 5 : -1));
  }
}
