// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/weight_gradient.hpp>

#include "tests/ops/engines/tensor_core/engine.hpp"
#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace cordee::detail::device;
using namespace support;

TEST_CASE("weight gradient: a walk over output pixels finds the input pixel of each") {
  for (const convolution_problem& p : tensor_shapes)
    for (const int step : {1, 8, 16, 32}) {
      INFO(describe(p), ", step ", step);
      const auto g = detail::ops::fprop_gemm<half>(p, 7);
      const detail::ops::input_step by(g, step);
      const int down = p.window - 1, across = p.window / 2;
      detail::ops::input_walk walk(g, 3, down, across);
      std::ptrdiff_t offset = walk.offset(g);
      const int pixels = static_cast<int>(g.pixels());
      for (int pixel = 3; pixel < pixels; pixel += step) {
        const extent out = p.out();
        const int row = pixel / out.width % out.height * p.stride - p.padding + down,
                  column = pixel % out.width * p.stride - p.padding + across,
                  sample = pixel / out.width / out.height;
        const bool inside = row >= 0 && row < p.in.height && column >= 0 && column < p.in.width;
        CHECK(walk.is_inside(g) == inside);
        if (inside)
          CHECK(offset == ((sample * p.in.height + row) * p.in.width + column) * g.channels);
        offset += walk.advance(by);
      }
    }
}

TEST_CASE("weight gradient: small layers are split more, as a function of the layer alone") {
  CHECK(detail::ops::steps_per_split(0, 10) == 0);
  CHECK(detail::ops::steps_per_split(5, 10) == 5);          // one split
  CHECK(detail::ops::steps_per_split(16 * 40, 4) == 16);    // the fewest steps per split
  CHECK(detail::ops::steps_per_split(100'000, 8) == 1563);  // 64 splits
  CHECK(detail::ops::steps_per_split(1000, 5000) == 1000);
}

TEST_CASE("weight gradient: the partial sums of any split add up to the definition") {
  const tiled_fixture<> fixture;
  const auto dy = short_numbers<half>(size(fixture.samples) * fixture.p.out().size(), 3);
  std::vector<double> wanted(fixture.p.weights());
  for_each_product(fixture.p, fixture.samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    wanted[iw] += dy[iy] * fixture.x[ix];
  });
  const auto x = fixture.in_memory(fixture.x, fixture.p.in),
             dy_blocks = fixture.in_memory(dy, fixture.p.out());
  const auto g = detail::ops::fprop_gemm<half>(fixture.p, fixture.samples);
  const detail::ops::krsc_layout layout(fixture.p, g.channels, g.filters);
  for (const int steps : {1, 2, 7}) {
    const std::size_t splits = blocks_for(g.pixels(), static_cast<std::size_t>(32 * steps));
    std::vector<float> partial(splits * layout.size(), 99), dw(fixture.p.weights());
    fixture.at.s.launch_kernel(splits,
                               detail::ops::weight_gradient_kernel<half, tiled_fixture<>::tile,
                                                                   detail::ops::identity_prologue>{
                                   g, x.data(), dy_blocks.data(), {}, partial.data(), steps});
    detail::ops::unpack_filters(layout, partial.data(), splits, dw.data(), write_mode::overwrite,
                                fixture.at.s);
    CHECK(std::vector<double>(dw.begin(), dw.end()) == wanted);
  }
}
