// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <iterator>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/phase_planes.hpp>

#include "tests/support/engines.hpp"

namespace {

using namespace cordee;
using namespace cordee::detail::ops;

}  // namespace

TEST_CASE("amx planes: each tap of each output finds its pixel, or zeros outside the image") {
  // Numbers are their own index, from 1, so that each is distinct and none is zero.
  std::vector<convolution_problem> shapes(std::begin(support::many_shapes),
                                          std::end(support::many_shapes));
  shapes.push_back({{33, 8, 8}, 32, 3, 2, 1});  // samples together behind a stride
  for (const convolution_problem& p : shapes)
    for (const bool backward : {false, true})
      for (const int samples : {1, 4}) {
        auto plan = plan_tile_correlation(p, backward, samples);
        if (plan.in_place) continue;
        INFO(support::describe(p), backward ? ", backward" : "", ", samples ", samples);
        const std::size_t size = sample_size(plan.in, plan.in_block);
        std::vector<std::uint32_t> x(size * support::size(plan.together)),
            planes(plan.plane_size(), 0xffffffffu);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint32_t>(i) + 1;
        plane_filler(plan, x.data(), plan.together, size, planes.data()).finish();

        std::size_t wrong = 0;
        const auto blocks = static_cast<std::ptrdiff_t>(plan.in_blocks);
        for (int phase = 0; phase < plan.phases(); ++phase) {
          if (plan.is_empty(phase)) continue;
          const tile_phase rows = plan.row_phase(phase), columns = plan.column_phase(phase);
          for (int n = 0; n < plan.together; ++n)
            for (int i = 0; i < rows.outputs; ++i)
              for (int j = 0; j < columns.outputs; ++j)
                for (int r = 0; r < rows.taps; ++r)
                  for (int s = 0; s < columns.taps; ++s) {
                    const std::ptrdiff_t c = (r + s) % blocks;
                    const int h = plan.rows.first +
                                  (i * plan.rows.step + rows.first + r) * plan.rows.spacing,
                              l = plan.columns.first + (j * plan.columns.step + columns.first + s) *
                                                           plan.columns.spacing;
                    const std::ptrdiff_t position =
                        (std::ptrdiff_t{i} * plan.output_pitch() + j) * plan.together + n;
                    const std::uint32_t* const pixel = planes.data() + c * plan.block_size() +
                                                       plan.at(rows.first + r, columns.first + s) +
                                                       position * plan.columns.step * plan.pixel;
                    const bool inside = h >= 0 && l >= 0 && h < plan.in.height && l < plan.in.width;
                    for (int k = 0; k < plan.pixel; ++k) {
                      std::size_t expected = 0;
                      if (inside && k < plan.in_block)
                        expected =
                            support::size(n) * size + 1 +
                            support::size(
                                ((static_cast<int>(c) * plan.in.height + h) * plan.in.width + l) *
                                    plan.in_block +
                                k);
                      wrong += pixel[k] != expected;
                    }
                  }
        }
        CHECK(wrong == 0);
        // What tiles read behind the last pixel is zero.
        for (std::ptrdiff_t i = 0; i < plan.tail(); ++i)
          wrong += planes[plan.plane_size() - 1 - static_cast<std::size_t>(i)] != 0;
        CHECK(wrong == 0);
      }
}
