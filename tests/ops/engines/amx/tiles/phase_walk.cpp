// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/phase_walk.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("amx walk: the rows of tiles write every pixel of every sample once") {
  for (const convolution_problem& p : support::many_shapes)
    for (const bool backward : {false, true})
      for (const int samples : {1, 4, 16}) {
        INFO(support::describe(p), backward ? ", backward" : "", ", samples ", samples);
        const auto plan = plan_tile_correlation(p, backward, samples);
        const std::size_t y_size = sample_size(plan.out, plan.out_block),
                          block = support::size(plan.out_block);
        std::vector<int> written(y_size * support::size(plan.together));
        std::size_t beyond = 0, wrong = 0;
        for (int phase = 0; phase < plan.phases(); ++phase) {
          if (plan.is_empty(phase)) {
            const tile_phase rows = plan.row_phase(phase), columns = plan.column_phase(phase);
            for (std::size_t n = 0; n < support::size(plan.together); ++n)
              for (int i = 0; i < rows.outputs; ++i)
                for (int j = 0; j < columns.outputs; ++j)
                  ++written[n * y_size +
                            static_cast<std::size_t>(output_pixel(plan, rows, columns, i, j))];
            continue;
          }
          const phase_walk walk(plan, phase, y_size);
          CHECK(walk.starts.size() == support::size(plan.tiles(phase)));
          CHECK(walk.offsets.size() == support::size(plan.steps(phase)));
          REQUIRE(walk.targets.size() == walk.starts.size() * tile_rows);
          for (std::size_t row = 0; row < walk.targets.size(); ++row) {
            const std::ptrdiff_t target = walk.targets[row];
            if (target < 0) continue;
            const auto at = static_cast<std::size_t>(target);
            if (at >= written.size()) {
              ++beyond;
              continue;
            }
            ++written[at];
            // By the definition of a position.
            const auto position =
                support::size(plan.tile_start(phase, static_cast<int>(row / tile_rows))) +
                row % tile_rows;
            const auto together = support::size(plan.together),
                       pitch = support::size(plan.output_pitch());
            const auto i = static_cast<int>(position / together / pitch),
                       j = static_cast<int>(position / together % pitch);
            wrong += at != position % together * y_size +
                               static_cast<std::size_t>(output_pixel(
                                   plan, plan.row_phase(phase), plan.column_phase(phase), i, j));
          }
        }
        CHECK(beyond == 0);
        CHECK(wrong == 0);
        // The first block of each sample has every pixel once, other numbers are not addressed.
        std::size_t once = 0, all = 0;
        for (std::size_t at = 0; at < written.size(); ++at) {
          const bool begins_pixel =
              at % y_size % block == 0 && at % y_size / block < plan.out.pixels();
          once += begins_pixel && written[at] == 1;
          all += support::size(written[at]);
        }
        CHECK(once == plan.out.pixels() * support::size(plan.together));
        CHECK(all == once);
      }
}
