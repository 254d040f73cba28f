// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Without a profiler NVTX's functions do nothing, so this tests that they are called and that
// nothing is left behind.
#include <doctest/doctest.h>

#include <cordee/device/cuda_nvtx.hpp>

using namespace cordee;
using detail::core::trace_sinks;

TEST_CASE("nvtx_ranges: receives the ranges of a fit, and none after it") {
  int run = 0;
  {
    nvtx_ranges ranges;
    ranges.begin_on_all_ranks(run, 0.0);
    REQUIRE(trace_sinks != nullptr);
    {
      const detail::core::trace_range step("step", 3);
      const detail::core::trace_range forward("forward");
    }
    ranges.end_on_all_ranks(run);
    CHECK(trace_sinks == nullptr);
    ranges.begin_on_all_ranks(run, 0.0);  // a fit that throws
  }
  CHECK(trace_sinks == nullptr);
}
