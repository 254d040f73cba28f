// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The plans of wgrad by tiles for the layers of ResNet-20 and ResNet-50, without running one. The
// shares of the processor's peak are modelled (cycles of amx_gradient_plan), not measured.
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/weight_gradient_plan.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct golden_plan {  // of 32 samples
  convolution_problem layer;
  bool column_copies;
  int filter_parts, channel_parts, groups, pairs_at_once, rows_at_once, pitch;
  double share;  // modelled, at least
};
constexpr golden_plan layers[] = {
    {{{3, 224, 224}, 64, 7, 2, 3}, false, 1, 1, 8, 1, 32, 114, 0.32},
    {{{64, 56, 56}, 64, 1, 1, 0}, false, 1, 1, 8, 1, 44, 56, 0.15},
    {{{64, 56, 56}, 64, 3, 1, 1}, false, 1, 1, 8, 1, 37, 57, 0.61},
    {{{64, 56, 56}, 256, 1, 1, 0}, false, 1, 1, 8, 1, 16, 56, 0.21},
    {{{256, 56, 56}, 64, 1, 1, 0}, false, 1, 1, 8, 1, 16, 56, 0.24},
    {{{256, 56, 56}, 128, 1, 1, 0}, false, 1, 1, 8, 1, 12, 56, 0.34},
    {{{128, 56, 56}, 128, 3, 2, 1}, false, 1, 1, 8, 1, 7, 29, 0.53},
    {{{128, 28, 28}, 512, 1, 1, 0}, false, 1, 1, 8, 1, 12, 28, 0.35},
    {{{256, 56, 56}, 512, 1, 2, 0}, false, 1, 1, 8, 1, 8, 28, 0.48},
    {{{512, 28, 28}, 128, 1, 1, 0}, false, 1, 1, 8, 1, 12, 28, 0.38},
    {{{128, 28, 28}, 128, 3, 1, 1}, false, 1, 1, 8, 1, 22, 29, 0.73},
    {{{256, 28, 28}, 256, 3, 2, 1}, false, 1, 4, 2, 1, 14, 15, 0.54},
    {{{256, 14, 14}, 1024, 1, 1, 0}, false, 2, 1, 4, 1, 14, 14, 0.46},
    {{{1024, 14, 14}, 256, 1, 1, 0}, false, 1, 2, 4, 1, 14, 14, 0.48},
    {{{256, 14, 14}, 256, 3, 1, 1}, false, 4, 2, 1, 5, 14, 15, 0.63},
    {{{512, 14, 14}, 512, 3, 2, 1}, true, 2, 8, 1, 5, 7, 7, 0.53},
    {{{512, 7, 7}, 2048, 1, 1, 0}, false, 8, 1, 1, 4, 7, 7, 0.48},
    {{{2048, 7, 7}, 512, 1, 1, 0}, false, 2, 4, 1, 4, 7, 7, 0.48},
    {{{512, 7, 7}, 512, 3, 1, 1}, false, 4, 4, 1, 10, 7, 8, 0.65},
    {{{3, 32, 32}, 16, 3, 1, 1}, false, 1, 1, 8, 2, 32, 33, 0.09},
    {{{16, 32, 32}, 16, 3, 1, 1}, false, 1, 1, 8, 2, 32, 33, 0.28},
    {{{16, 32, 32}, 32, 3, 2, 1}, false, 1, 1, 8, 2, 16, 17, 0.20},
    {{{16, 32, 32}, 32, 1, 2, 0}, false, 1, 1, 8, 2, 16, 16, 0.05},
    {{{32, 16, 16}, 32, 3, 1, 1}, false, 1, 1, 8, 2, 16, 17, 0.41},
    {{{32, 16, 16}, 64, 3, 2, 1}, false, 1, 1, 8, 2, 8, 9, 0.30},
    {{{64, 8, 8}, 64, 3, 1, 1}, false, 2, 2, 2, 8, 8, 9, 0.38},
};

constexpr amx_gradient_plan stage = plan_amx_gradient({{64, 56, 56}, 64, 3, 1, 1}, 32);

/// Cycles of all products, if all were useful, over the modelled cycles with all copies.
double modelled_share(const amx_gradient_plan& plan) {
  double cycles = 0;
  for (int group = 0; group < plan.groups; ++group)
    plan.for_each_chunk(group,
                        [&](const amx_gradient_plan::chunk& c) { cycles += plan.cycles(c); });
  return static_cast<double>(plan.layer.macs()) * plan.samples / (16 * 16 * 32) *
         tile_product_cycles / cycles;
}

}  // namespace

// The plan is a constant expression.
static_assert(stage.filter_tiles == 4 && stage.column_tiles() == 36 && stage.pitch == 57);

TEST_CASE("amx_gradient_plan: the layers of ResNet-20 and ResNet-50") {
  for (const golden_plan& golden : layers) {
    const amx_gradient_plan plan = plan_amx_gradient(golden.layer, 32);
    CAPTURE(support::describe(golden.layer));
    CHECK(plan.column_copies == golden.column_copies);
    CHECK(plan.filter_parts == golden.filter_parts);
    CHECK(plan.channel_parts == golden.channel_parts);
    CHECK(plan.groups == golden.groups);
    CHECK(plan.pairs_at_once == golden.pairs_at_once);
    CHECK(plan.rows_at_once == golden.rows_at_once);
    CHECK(plan.pitch == golden.pitch);
    CHECK(modelled_share(plan) >= golden.share);
  }
}

TEST_CASE("amx_gradient_plan: copies of ResNet-50's 3x3 layers take no longer than the products") {
  for (const golden_plan& golden : layers) {
    const convolution_problem& p = golden.layer;
    if (p.window != 3 || p.in.channels < 64 || p.in.width == 8) continue;
    for (const int samples : {8, 32, 128}) {
      const amx_gradient_plan plan = plan_amx_gradient(p, samples);
      const amx_gradient_plan::chunk c{0, plan.pairs_at_once, 0, plan.rows_at_once};
      CAPTURE(support::describe(p));
      CAPTURE(samples);
      CHECK(plan.cycles(c) <=
            2.0 * tile_product_cycles * plan.filter_tiles * plan.column_tiles() * plan.steps(c));
    }
  }
}

TEST_CASE("amx_gradient_plan: every row of every pair is in one chunk, in several tasks") {
  CHECK(plan_amx_gradient({{64, 56, 56}, 64, 3, 1, 1}, 8).row_groups == 2);
  for (const golden_plan& golden : layers)
    for (const int samples : {1, 5, 8, 23, 128}) {
      const amx_gradient_plan plan = plan_amx_gradient(golden.layer, samples);
      CAPTURE(support::describe(golden.layer));
      CAPTURE(samples);
      std::vector<int> times(static_cast<std::size_t>(plan.pairs() * plan.out.height));
      for (int group = 0; group < plan.groups; ++group)
        plan.for_each_chunk(group, [&](const amx_gradient_plan::chunk& c) {
          for (int n = c.first_pair; n < c.first_pair + c.pairs; ++n)
            for (int i = c.first_row; i < c.first_row + c.rows; ++i)
              ++times[static_cast<std::size_t>(n * plan.out.height + i)];
        });
      CHECK(times == std::vector<int>(times.size(), 1));
      if (samples >= 16) CHECK(plan.groups * plan.filter_parts * plan.channel_parts >= 5);
      CHECK(plan.workspace() ==
            (plan.groups > 1 ? static_cast<std::size_t>(plan.groups) * plan.sums_size() : 0));
    }
}
