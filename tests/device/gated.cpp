// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/gated.hpp>
#include <cordee/ops/grid/segmented.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

static_assert(Device<gated<emulated>> && GridStream<gated<emulated>::stream>);

namespace {

/// Turns a block's numbers round, through memory that it shares.
struct turns {
  static constexpr int threads = 32;
  float* x;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    float* const mine = x + b.index() * threads + b.thread();
    part[threads - 1 - b.thread()] = *mine;
    b.sync();
    *mine = part[b.thread()];
  }
};

std::vector<float> ascending(std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

}  // namespace

TEST_CASE("gated: bodies run where the flag is down, and leave everything where it is raised") {
  for (const std::int32_t closed : {0, 1, 2}) {
    const auto before = ascending(64);
    auto x = before, y = before;
    const gated<emulated>::stream s{emulated::stream{3}, &closed};
    s.launch(2, turns{x.data()});
    for_each(s, y.size(), [at = y.data()](std::size_t i) { at[i] = 0; });
    CHECK((x == before) == (closed != 0));
    if (closed == 0) CHECK(x[0] == before[31]);
    CHECK((y == before) == (closed != 0));
  }
}

TEST_CASE("gated: norms by segment are left as they are too, lent memory or not") {
  const std::array<segment, 2> table{segment{"a", kind::weight, 0, 64},
                                     segment{"b", kind::bias, 64, 6}};
  const auto x = ascending(70);
  for (const std::int32_t closed : {0, 1}) {
    std::array<double, 2> squares{-1, -1};
    const gated<emulated>::stream s{emulated::stream{3}, &closed};
    segmented_squares<float>(s, table, span_on<const float, gated<emulated>>{x.data(), x.size()},
                             span_on<double, gated<emulated>>{squares.data(), 2});
    CHECK((squares[0] == -1 && squares[1] == -1) == (closed != 0));
  }
}

TEST_CASE(
    "gated: the flag counts that stands when the work's turn comes, not when it is handed over") {
  const deferred device;
  const auto s = device.open();
  std::int32_t closed = 0;
  auto x = ascending(3);
  const gated<deferred>::stream gate{s, &closed};
  for_each(s, 1, [flag = &closed](std::size_t) { *flag = 1; });
  for_each(gate, 3, [at = x.data()](std::size_t i) { at[i] = 0; });
  s.finish();
  CHECK(x == ascending(3));
}
