// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>

#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/sweep.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;

namespace {

/// A product there is: pixels of the input and of the output, each with its sample, and the tap.
using meeting = std::array<int, 3>;

/// The place in memory of what is made, divided by the channels there, and of what is seen.
void meet(const detail::sweep& at, bool forwards, std::multiset<meeting>& all) {
  for (int pixel = 0; at.terms() != 0 && pixel < static_cast<int>(at.pixels()); ++pixel) {
    const int made = static_cast<int>(at.place(pixel)) / at.filters;
    const auto from = at.seen(pixel);
    for (detail::sweep_term term; term.u < at.down.taps; term.advance(at, at.channels)) {
      const int h = from.top + term.u * at.down.way, l = from.left + term.v * at.across.way;
      if (h < 0 || h >= at.down.in || l < 0 || l >= at.across.in) continue;
      const int tap = (at.down.tap + term.u * at.down.next) * at.window + at.across.tap +
                      term.v * at.across.next;
      const int seen = (from.sample * at.down.in + h) * at.across.in + l;
      all.insert(forwards ? meeting{seen, made, tap} : meeting{made, seen, tap});
    }
  }
}

}  // namespace

TEST_CASE("sweep: fprop, and dgrad over all remainders, meet every product once") {
  constexpr int samples = 2;
  for (convolution_problem p : support::many_shapes) {
    if (p.in.pixels() > 100) continue;
    INFO(support::to_text(p));
    p.in.channels = p.filters = 1;
    const extent out = p.out();
    std::multiset<meeting> all, forwards, back;
    support::each_product(p, samples, [&](std::size_t w, std::size_t x, std::size_t y) {
      all.insert({static_cast<int>(x), static_cast<int>(y), static_cast<int>(w)});
    });
    meet(detail::fprop_sweep<half>(p, samples), true, forwards);
    CHECK(forwards == all);
    std::size_t pixels = 0;
    for (int row = 0; row < p.stride; ++row)
      for (int column = 0; column < p.stride; ++column) {
        const auto at = detail::dgrad_sweep<half>(p, samples, row, column);
        pixels += at.pixels();
        meet(at, false, back);
      }
    CHECK(back == all);
    CHECK(pixels == samples * p.in.pixels());
    CHECK(detail::fprop_sweep<half>(p, samples).pixels() == samples * out.pixels());
  }
}

TEST_CASE("sweep: terms go through a tap's channels, then to the next tap") {
  const auto at = detail::fprop_sweep<half>({{20, 5, 5}, 3, 3, 1, 1}, 1);
  CHECK(at.channels == 24);
  CHECK(at.filters == 8);
  CHECK(at.terms() == 9 * 24);
  for (const int by : {8, 32, 64}) {
    detail::sweep_term term;
    for (int i = 0; i < at.terms(); i += by, term.advance(at, by)) {
      CHECK(term.channel == i % 24);
      CHECK(term.u * 3 + term.v == i / 24);
    }
    CHECK(term.u >= 3);
  }
}
