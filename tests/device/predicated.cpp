// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/predicated.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace support;

static_assert(Device<predicated<emulated>> && GpuStream<predicated<emulated>::stream>);

namespace {

/// Reverses a block's numbers through shared memory.
struct reverse_kernel {
  static constexpr int threads = 32;
  float* x;
  [[nodiscard]] constexpr std::size_t shared_bytes() const { return threads * sizeof(float); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    float* const part = b.template shared<float>(threads);
    float* const element = x + b.index() * threads + b.thread();
    part[threads - 1 - b.thread()] = *element;
    b.sync();
    *element = part[b.thread()];
  }
};

std::vector<float> ascending(std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

}  // namespace

TEST_CASE("predicated: kernels run where the flag is 0, and change nothing otherwise") {
  for (const std::int32_t skip : {0, 1, 2}) {
    const auto before = ascending(64);
    auto x = before, y = before;
    const predicated<emulated>::stream s{emulated::stream{3}, &skip};
    s.launch_kernel(2, reverse_kernel{x.data()});
    for_each(s, y.size(), [at = y.data()](std::size_t i) { at[i] = 0; });
    CHECK((x == before) == (skip != 0));
    if (skip == 0) CHECK(x[0] == before[31]);
    CHECK((y == before) == (skip != 0));
  }
}

TEST_CASE(
    "predicated: segmented_squares, which uses temporary memory, changes nothing if skipped") {
  const std::array<segment, 2> table{segment{"a", kind::weight, 0, 64},
                                     segment{"b", kind::bias, 64, 6}};
  const auto x = ascending(70);
  for (const std::int32_t skip : {0, 1}) {
    std::array<double, 2> squares{-1, -1};
    const predicated<emulated>::stream s{emulated::stream{3}, &skip};
    segmented_squares<float>(s, table,
                             span_on<const float, predicated<emulated>>{x.data(), x.size()},
                             span_on<double, predicated<emulated>>{squares.data(), 2});
    CHECK((squares[0] == -1 && squares[1] == -1) == (skip != 0));
  }
}

TEST_CASE("predicated: the flag is read when the kernel runs, not when it is launched") {
  const deferred device;
  const auto s = device.make_stream();
  std::int32_t skip = 0;
  auto x = ascending(3);
  const predicated<deferred>::stream gate{s, &skip};
  for_each(s, 1, [flag = &skip](std::size_t) { *flag = 1; });
  for_each(gate, 3, [at = x.data()](std::size_t i) { at[i] = 0; });
  s.finish();
  CHECK(x == ascending(3));
}
