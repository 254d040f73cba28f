// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The plans of the layers of ResNet-20 and ResNet-50, for both common register files, without
// running one.
#include <algorithm>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/correlation_plan.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct golden_plan {
  convolution_problem layer;
  bool backward, rows3x3, in_place, filter_pairs;
  int gather_stride, depth, band_rows, task_samples;
  int part;  // input blocks of a full band
};

template <int V>
void check(const golden_plan& golden) {
  const correlation_plan plan = plan_correlation<float, V>(golden.layer, golden.backward);
  CAPTURE(V);
  CAPTURE(support::describe(golden.layer));
  CAPTURE(golden.backward);
  CHECK(plan.backward == golden.backward);
  CHECK(plan.rows3x3 == golden.rows3x3);
  CHECK(plan.in_place == golden.in_place);
  CHECK(plan.filter_pairs == golden.filter_pairs);
  CHECK(plan.gather_stride == golden.gather_stride);
  CHECK(plan.depth == golden.depth);
  CHECK(plan.band_rows == golden.band_rows);
  CHECK(plan.task_samples == golden.task_samples);
  const int rows = std::min(plan.out.height, plan.band_rows * plan.out_step);
  CHECK(plan.blocks_per_part(plan.task_samples, rows) == golden.part);
}

constexpr golden_plan avx512[] = {
    {{{3, 32, 32}, 16, 3, 1, 1}, false, true, true, false, 1, 1, 32, 4, 1},
    {{{3, 32, 32}, 16, 3, 1, 1}, true, true, true, true, 1, 1, 32, 1, 1},
    {{{16, 32, 32}, 16, 3, 1, 1}, false, true, true, true, 1, 1, 32, 4, 1},
    {{{16, 32, 32}, 16, 3, 1, 1}, true, true, true, true, 1, 1, 32, 4, 1},
    {{{16, 32, 32}, 32, 3, 2, 1}, false, true, true, true, 1, 1, 16, 4, 1},
    {{{16, 32, 32}, 32, 3, 2, 1}, true, true, true, true, 1, 2, 16, 4, 2},
    {{{16, 32, 32}, 32, 1, 2, 0}, false, false, true, true, 2, 16, 16, 1, 1},
    {{{16, 32, 32}, 32, 1, 2, 0}, true, false, true, true, 2, 16, 16, 1, 2},
    {{{64, 8, 8}, 64, 3, 1, 1}, false, true, true, true, 1, 1, 8, 4, 4},
    {{{64, 8, 8}, 64, 3, 1, 1}, true, true, true, true, 1, 1, 8, 4, 4},
    {{{3, 224, 224}, 64, 7, 2, 3}, false, false, false, true, 1, 1, 45, 1, 1},
    {{{3, 224, 224}, 64, 7, 2, 3}, true, false, false, true, 1, 1, 4, 1, 4},
    {{{64, 56, 56}, 64, 1, 1, 0}, false, false, true, true, 1, 16, 18, 1, 4},
    {{{64, 56, 56}, 64, 1, 1, 0}, true, false, true, true, 1, 16, 18, 1, 4},
    {{{64, 56, 56}, 64, 3, 1, 1}, false, true, true, true, 1, 1, 16, 1, 4},
    {{{64, 56, 56}, 64, 3, 1, 1}, true, true, true, true, 1, 1, 16, 1, 4},
    {{{128, 56, 56}, 128, 3, 2, 1}, false, true, true, true, 1, 1, 4, 1, 8},
    {{{128, 56, 56}, 128, 3, 2, 1}, true, true, true, true, 1, 2, 16, 1, 8},
    {{{256, 56, 56}, 512, 1, 2, 0}, false, false, true, true, 2, 16, 9, 1, 16},
    {{{256, 56, 56}, 512, 1, 2, 0}, true, false, true, true, 2, 16, 9, 1, 16},
    {{{512, 7, 7}, 512, 3, 1, 1}, false, true, true, true, 1, 1, 7, 4, 20},
    {{{512, 7, 7}, 512, 3, 1, 1}, true, true, true, true, 1, 1, 7, 4, 20},
    {{{2048, 7, 7}, 512, 1, 1, 0}, false, false, true, true, 1, 16, 7, 4, 16},
    {{{2048, 7, 7}, 512, 1, 1, 0}, true, false, true, true, 1, 16, 7, 4, 16},
};

constexpr golden_plan avx2[] = {
    {{{3, 32, 32}, 16, 3, 1, 1}, false, true, true, false, 1, 3, 32, 4, 1},
    {{{3, 32, 32}, 16, 3, 1, 1}, true, true, true, true, 1, 3, 32, 1, 2},
    {{{16, 32, 32}, 16, 3, 1, 1}, false, true, true, true, 1, 3, 32, 2, 2},
    {{{16, 32, 32}, 16, 3, 1, 1}, true, true, true, true, 1, 3, 32, 2, 2},
    {{{16, 32, 32}, 32, 3, 2, 1}, false, true, true, true, 1, 3, 16, 2, 2},
    {{{16, 32, 32}, 32, 3, 2, 1}, true, true, true, false, 1, 5, 16, 4, 4},
    {{{16, 32, 32}, 32, 1, 2, 0}, false, false, true, true, 2, 32, 16, 1, 2},
    {{{16, 32, 32}, 32, 1, 2, 0}, true, false, true, true, 2, 32, 16, 1, 4},
    {{{64, 8, 8}, 64, 3, 1, 1}, false, true, true, true, 1, 3, 8, 4, 8},
    {{{64, 8, 8}, 64, 3, 1, 1}, true, true, true, true, 1, 3, 8, 4, 8},
    {{{3, 224, 224}, 64, 7, 2, 3}, false, false, false, true, 1, 1, 45, 1, 1},
    {{{3, 224, 224}, 64, 7, 2, 3}, true, false, false, true, 1, 2, 4, 1, 8},
    {{{64, 56, 56}, 64, 1, 1, 0}, false, false, true, true, 1, 32, 18, 1, 8},
    {{{64, 56, 56}, 64, 1, 1, 0}, true, false, true, true, 1, 32, 18, 1, 8},
    {{{64, 56, 56}, 64, 3, 1, 1}, false, true, true, true, 1, 3, 16, 1, 8},
    {{{64, 56, 56}, 64, 3, 1, 1}, true, true, true, true, 1, 3, 16, 1, 8},
    {{{128, 56, 56}, 128, 3, 2, 1}, false, true, true, true, 1, 3, 8, 1, 6},
    {{{128, 56, 56}, 128, 3, 2, 1}, true, true, true, false, 1, 5, 28, 2, 5},
    {{{256, 56, 56}, 512, 1, 2, 0}, false, false, true, true, 2, 32, 9, 1, 32},
    {{{256, 56, 56}, 512, 1, 2, 0}, true, false, true, true, 2, 32, 9, 1, 32},
    {{{512, 7, 7}, 512, 3, 1, 1}, false, true, true, true, 1, 3, 7, 4, 39},
    {{{512, 7, 7}, 512, 3, 1, 1}, true, true, true, true, 1, 3, 7, 4, 39},
    {{{2048, 7, 7}, 512, 1, 1, 0}, false, false, true, true, 1, 32, 7, 4, 32},
    {{{2048, 7, 7}, 512, 1, 1, 0}, true, false, true, true, 1, 32, 7, 4, 32},
};

constexpr correlation_plan small = plan_correlation<float, 8>({{16, 32, 32}, 16, 3, 1, 1}, false);

}  // namespace

// The plan is a constant expression.
static_assert(small.rows3x3 && small.in_place && small.in == extent{16, 32, 32});

TEST_CASE("correlation_plan: the layers of ResNet-20 and ResNet-50, AVX-512") {
  for (const golden_plan& golden : avx512) check<16>(golden);
}

TEST_CASE("correlation_plan: the layers of ResNet-20 and ResNet-50, AVX2") {
  if (many_registers<float, 8>) return;  // SVE of 32 bytes
  for (const golden_plan& golden : avx2) check<8>(golden);
}

TEST_CASE("correlation_plan: filters are shared out where there are few groups of samples") {
  const correlation_plan plan = plan_correlation<float, 8>({{64, 14, 14}, 256, 3, 1, 1}, false);
  REQUIRE(plan.filter_pair_count() == 16);
  REQUIRE(plan.task_samples == 4);
  CHECK(plan.sample_groups(0) == 0);
  CHECK(plan.sample_groups(9) == 3);
  CHECK(plan.filter_parts(3, 1) == 1);   // one worker: no parts
  CHECK(plan.filter_parts(1, 8) == 16);  // as many as pairs, at most
  CHECK(plan.filter_parts(4, 2) == 4);   // eight tasks for each worker
  CHECK(plan.filter_parts(100, 2) == 1);
  // Not where every part would copy the same input again.
  CHECK(plan_correlation<float, 8>({{64, 14, 14}, 256, 5, 1, 2}, false).filter_parts(1, 8) == 1);
  CHECK(plan_correlation<float, 8>({{64, 14, 14}, 256, 1, 2, 0}, false).filter_parts(1, 8) == 1);
}

TEST_CASE("correlation_plan: the input rows of a band are those that its taps reach") {
  for (const convolution_problem& p : {convolution_problem{{16, 9, 9}, 16, 3, 1, 1},
                                       {{16, 9, 9}, 16, 5, 1, 2},
                                       {{16, 9, 9}, 16, 3, 2, 1},
                                       {{16, 9, 9}, 16, 7, 2, 3},
                                       {{16, 9, 9}, 16, 2, 3, 0},
                                       {{16, 9, 9}, 16, 3, 1, 0}})
    for (const bool backward : {false, true}) {
      const correlation_plan plan = plan_correlation<float, 8>(p, backward);
      for (int first = 0; first < plan.out.height; ++first)
        for (int last = first + 1; last <= plan.out.height; ++last) {
          CAPTURE(support::describe(p));
          CAPTURE(backward);
          CAPTURE(first);
          CAPTURE(last);
          int low = plan.in.height, high = 0;  // by the definition
          for (int i = 0; i < p.out().height; ++i)
            for (int r = 0; r < p.window; ++r) {
              const int h = i * p.stride + r - p.padding, y = backward ? h : i,
                        x = backward ? i : h;
              if (y < first || y >= last || x < 0 || x >= plan.in.height) continue;
              low = std::min(low, x);
              high = std::max(high, x + 1);
            }
          const row_range rows = plan.input_rows({first, last});
          if (high == 0) continue;
          CHECK(rows.first <= low);
          CHECK(rows.last >= high);
          // At most what a stride leaves between rows is read beside them.
          CHECK(rows.last - rows.first <= high - low + 2 * p.stride);
        }
    }
}

TEST_CASE("correlation_plan: a copied row has the columns that its taps reach") {
  for (const convolution_problem& p : {convolution_problem{{16, 9, 9}, 16, 5, 1, 2},
                                       {{16, 9, 8}, 16, 7, 2, 3},
                                       {{16, 9, 11}, 16, 5, 3, 2},
                                       {{16, 9, 9}, 16, 3, 1, 2},
                                       {{16, 9, 10}, 16, 4, 2, 1},
                                       {{16, 9, 7}, 16, 3, 1, 0},
                                       {{16, 9, 10}, 16, 5, 2, 0}})
    for (const bool backward : {false, true}) {
      const correlation_plan plan = plan_correlation<float, 8>(p, backward);
      int low = 0, high = 0;  // by the definition; columns outside of the image are zero
      for (int x = -p.window; x < plan.in.width + p.window; ++x)
        for (int q = 0; q < p.window; ++q)
          for (int y = 0; y < plan.out.width; ++y) {
            if (backward ? x * p.stride + q - p.padding != y : y * p.stride + q - p.padding != x)
              continue;
            low = std::min(low, x);
            high = std::max(high, x + 1);
          }
      CAPTURE(support::describe(p));
      CAPTURE(backward);
      CHECK(plan.in_place == (low == 0 && high <= plan.in.width));
      if (plan.in_place) continue;
      // The quotient of dgrad by a stride is rounded up: one column more, at most.
      const int more = plan.left_columns + low;
      CHECK(more >= 0);
      CHECK(more <= (backward && p.stride > 1 ? 1 : 0));
      CHECK(plan.padded_columns == plan.left_columns + high);
      CHECK(plan.row_size == std::ptrdiff_t{plan.block} * plan.padded_columns);
    }
}

TEST_CASE("correlation_plan: two samples at most share weights where pixels are gathered") {
  const convolution_problem p{{1024, 14, 14}, 2048, 1, 2, 0};
  CHECK(plan_correlation<float, 8>(p, false).task_samples == 2);
  CHECK(plan_correlation<float, 16>(p, true).task_samples == 2);
}

TEST_CASE("correlation_plan: sizes of samples in memory") {
  const convolution_problem p{{17, 9, 8}, 3, 1, 2, 0};
  const correlation_plan forward = plan_correlation<float, 8>(p, false),
                         backward = plan_correlation<float, 8>(p, true);
  CHECK(forward.gathers());
  CHECK(forward.x_size == 3 * 9 * 8 * 8);
  CHECK(forward.y_size == 5 * 4 * 3);  // few filters are not padded to a block
  CHECK(backward.x_size == forward.y_size);
  CHECK(backward.y_size == forward.x_size);
  CHECK(forward.in == extent{17, 5, 4});  // of the gathered pixels
}
