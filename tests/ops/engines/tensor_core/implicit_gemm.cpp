// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/implicit_gemm.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;

namespace {

/// One product of a convolution: the indices of the input pixel, the output pixel and the tap.
using product = std::array<int, 3>;

/// Inserts the products of the GEMM, of one channel each way; the others are of padding.
void collect_products(const detail::ops::implicit_gemm& g, bool forward,
                      std::multiset<product>& products) {
  bool reads_padding = false;
  for (int pixel = 0; g.depth() != 0 && pixel < static_cast<int>(g.pixels()); ++pixel) {
    const int written = static_cast<int>(g.output_offset(pixel)) / g.filters;
    const auto origin = g.origin_of(pixel);
    for (int k = 0; k < g.down.taps * g.across.taps; ++k) {
      const int u = k / g.across.taps, v = k % g.across.taps;
      const int h = origin.top + u * g.down.direction, l = origin.left + v * g.across.direction;
      if (h < 0 || h >= g.down.in || l < 0 || l >= g.across.in) {
        reads_padding = true;
        continue;
      }
      const int tap = (g.down.first_tap + u * g.down.tap_step) * g.window + g.across.first_tap +
                      v * g.across.tap_step;
      const int read = (origin.sample * g.down.in + h) * g.across.in + l;
      products.insert(forward ? product{read, written, tap} : product{written, read, tap});
    }
  }
  if (g.depth() != 0 && g.pixels() != 0) CHECK(g.reads_padding() == reads_padding);
}

}  // namespace

TEST_CASE("implicit_gemm: fprop, and dgrad over all remainders, contain every product once") {
  constexpr int samples = 2;
  for (convolution_problem p : support::many_shapes) {
    if (p.in.pixels() > 100) continue;
    INFO(support::describe(p));
    p.in.channels = p.filters = 1;
    const extent out = p.out();
    std::multiset<product> expected, fprop, dgrad;
    support::for_each_product(p, samples, [&](std::size_t w, std::size_t x, std::size_t y) {
      expected.insert({static_cast<int>(x), static_cast<int>(y), static_cast<int>(w)});
    });
    collect_products(detail::ops::fprop_gemm<half>(p, samples), true, fprop);
    CHECK(fprop == expected);
    std::size_t pixels = 0;
    for (int row = 0; row < p.stride; ++row)
      for (int column = 0; column < p.stride; ++column) {
        const auto g = detail::ops::dgrad_gemm<half>(p, samples, row, column);
        pixels += g.pixels();
        collect_products(g, false, dgrad);
      }
    CHECK(dgrad == expected);
    CHECK(pixels == samples * p.in.pixels());
    CHECK(detail::ops::fprop_gemm<half>(p, samples).pixels() == samples * out.pixels());
  }
}
