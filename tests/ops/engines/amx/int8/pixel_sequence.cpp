// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/pixel_sequence.hpp>

using cordee::detail::ops::pixel_sequence;

TEST_CASE("pixel_sequence: every pixel of the rows once, at its place") {
  for (const pixel_sequence& s :
       {pixel_sequence{5, 7, 2, 3, 1}, pixel_sequence{1, 2, 0, 4, 1}, pixel_sequence{5, 5, 1, 3, 4},
        pixel_sequence{1, 1, 0, 1, 3}, pixel_sequence{40, 41, 3, 2, 1}})
    for (const std::ptrdiff_t step : {1, 4, 32}) {
      std::vector<int> seen(static_cast<std::size_t>(s.samples * (s.first_row + s.rows) * s.width));
      bool in_place = true;
      for (std::ptrdiff_t p = 0; p < s.size(); p += step)
        s.for_each_run(
            p, std::min(s.size(), p + step),
            [&](std::size_t n, std::size_t pixel, std::ptrdiff_t place, std::size_t count) {
              const auto at = static_cast<std::ptrdiff_t>(pixel), of_sample = s.first_row * s.width;
              in_place = in_place && place == (static_cast<std::ptrdiff_t>(n) * s.rows +
                                               (at - of_sample) / s.width) *
                                                      s.pitch +
                                                  at % s.width;
              for (std::size_t k = 0; k < count; ++k)
                ++seen[n * seen.size() / static_cast<std::size_t>(s.samples) + pixel + k];
            });
      CHECK(in_place);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        const auto of_sample =
            static_cast<std::ptrdiff_t>(i % (seen.size() / static_cast<std::size_t>(s.samples)));
        CHECK(seen[i] == (of_sample >= s.first_row * s.width));
      }
    }
}
