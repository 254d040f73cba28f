// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/correlation_plan.hpp>

#include "tests/support/engines.hpp"

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

/// The outputs (sample, row, column) of a phase, as often as its tiles have them, without a tile's
/// overlap with the one before it.
std::vector<std::vector<int>> outputs_of(const tile_correlation_plan& plan, int phase) {
  std::vector<std::vector<int>> found;
  int next = 0;
  for (int t = 0; t < plan.tiles(phase); ++t)
    for (int m = 0; m < tile_rows; ++m) {
      const int at = plan.tile_start(phase, t) + m, n = at % plan.together,
                i = at / plan.together / plan.output_pitch(),
                j = at / plan.together % plan.output_pitch();
      if (at < next || i >= plan.row_phase(phase).outputs || j >= plan.column_phase(phase).outputs)
        continue;
      next = at + 1;
      found.push_back({n, i, j});
    }
  return found;
}

// The plan is known when a program is compiled.
constexpr auto stage = plan_tile_correlation({{256, 14, 14}, 256, 3, 1, 1}, false, 8);
static_assert(stage.together == 8 && !stage.in_place && stage.filter_columns == 16);
static_assert(stage.by_rows(0) && stage.tiles(0) * 16 == 14 * 14 * 8);  // no row is dropped
static_assert(stage.steps(0) == 8 * 9);
constexpr auto pointwise = plan_tile_correlation({{64, 56, 56}, 256, 1, 1, 0}, true, 8);
static_assert(pointwise.in_place && pointwise.together == 1);

}  // namespace

TEST_CASE("amx plan: every output pixel has one position of one tile") {
  for (const convolution_problem& p : support::many_shapes)
    for (const bool backward : {false, true})
      for (const int samples : {1, 2, 16}) {
        INFO(support::describe(p), backward ? ", backward" : "", ", samples ", samples);
        const auto plan = plan_tile_correlation(p, backward, samples);
        std::size_t outputs = 0;
        std::set<std::pair<int, int>> pixels;
        for (int phase = 0; phase < plan.phases(); ++phase) {
          const tile_phase rows = plan.row_phase(phase), columns = plan.column_phase(phase);
          for (int i = 0; i < rows.outputs; ++i)
            for (int j = 0; j < columns.outputs; ++j)
              pixels.emplace(rows.output + i * plan.rows.output_step,
                             columns.output + j * plan.columns.output_step);
          outputs += support::size(std::max(0, rows.outputs)) *
                     support::size(std::max(0, columns.outputs));
          if (plan.is_empty(phase)) continue;
          auto found = outputs_of(plan, phase);
          CHECK(found.size() == support::size(rows.outputs * columns.outputs * plan.together));
          std::sort(found.begin(), found.end());
          CHECK(std::adjacent_find(found.begin(), found.end()) == found.end());
        }
        CHECK(outputs == plan.out.pixels());
        CHECK(pixels.size() == plan.out.pixels());
      }
}

TEST_CASE("amx plan: tiles read nothing beyond the planes, and in place nothing beyond the image") {
  for (const convolution_problem& p : support::many_shapes)
    for (const bool backward : {false, true})
      for (const int samples : {1, 16}) {
        INFO(support::describe(p), backward ? ", backward" : "", ", samples ", samples);
        const auto plan = plan_tile_correlation(p, backward, samples);
        std::ptrdiff_t last = 0;
        for (int phase = 0; phase < plan.phases(); ++phase)
          for (int i = 0; i < plan.steps(phase); ++i)
            for (const int t : {0, plan.tiles(phase) - 1}) {
              REQUIRE(plan.tile_start(phase, t) >= 0);
              REQUIRE(plan.step_offset(phase, i) >= 0);
              last = std::max(last, plan.step_offset(phase, i) +
                                        std::ptrdiff_t{plan.tile_start(phase, t) + tile_rows - 1} *
                                            plan.columns.step * plan.pixel +
                                        plan.chunk_bytes(phase) / 2);
            }
        const std::size_t size =
            plan.in_place ? sample_size(plan.in, plan.in_block) : plan.plane_size();
        CHECK(static_cast<std::size_t>(last) <= size);
      }
}

TEST_CASE("amx plan: the useful share of products in the 3x3 layers of ResNet-50 is 0.9 or more") {
  // But for the two with stride 2 over small images: 0.875.
  for (const auto& [channels, side] : {std::pair{64, 56}, {128, 28}, {256, 14}, {512, 7}})
    for (const bool backward : {false, true}) {
      const convolution_problem p{{channels, side, side}, channels, 3, 1, 1},
          strided{{channels, 2 * side, 2 * side}, channels, 3, 2, 1};
      const auto share = [&](const convolution_problem& layer) {
        const auto plan = plan_tile_correlation(layer, backward, 16);
        return static_cast<double>(layer.macs()) * plan.together /
               (static_cast<double>(plan.products()) * 16 * 16 * 32);
      };
      CAPTURE(channels);
      CAPTURE(backward);
      CHECK(share(p) >= 0.97);
      if (channels > 64) CHECK(share(strided) >= (backward || side > 14 ? 0.96 : 0.87));
    }
}
