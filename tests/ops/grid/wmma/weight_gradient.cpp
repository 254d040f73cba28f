// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/grid/wmma/weight_gradient.hpp>

#include "tests/ops/grid/wmma/tiled.hpp"

using namespace support;

TEST_CASE("weight gradient: walks are places, without division") {
  for (const auto& [rows, columns] : {std::pair{5, 7}, {1, 1}, {7, 7}, {1, 40}, {9, 1}})
    for (const int step : {1, 8, 32}) {
      const detail::pixel_walk by(step, rows, columns);
      detail::pixel_walk at(3, rows, columns);
      for (int pixel = 3; pixel < 500; pixel += step, at.advance(by, rows, columns)) {
        CHECK(at.sample == pixel / (rows * columns));
        CHECK(at.row == pixel / columns % rows);
        CHECK(at.column == pixel % columns);
      }
    }
}

TEST_CASE("weight gradient: parts are many where a layer is small, and follow from it alone") {
  CHECK(detail::steps_of_part(0, 10) == 0);
  CHECK(detail::steps_of_part(5, 10) == 5);          // one part
  CHECK(detail::steps_of_part(16 * 40, 4) == 16);    // enough to do
  CHECK(detail::steps_of_part(100'000, 8) == 1563);  // 64 parts
  CHECK(detail::steps_of_part(1000, 5000) == 1000);
}

TEST_CASE("weight gradient: the parts are what all pixels are together") {
  const tiled<> by;
  const auto dy = short_numbers<half>(size(by.samples) * by.p.out().size(), 3);
  std::vector<double> wanted(by.p.weights());
  each_product(by.p, by.samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
    wanted[iw] += dy[iy] * by.x[ix];
  });
  const auto x = by.in_memory(by.x, by.p.in), there = by.in_memory(dy, by.p.out());
  const auto at = detail::fprop_sweep<half>(by.p, by.samples);
  const detail::krsc place(by.p, at.channels, at.filters);
  for (const int steps : {1, 2, 7}) {
    const std::size_t parts = blocks_for(at.pixels(), static_cast<std::size_t>(32 * steps));
    std::vector<float> part(parts * place.size(), 99), dw(by.p.weights());
    by.at.s.launch(parts, detail::weight_gradient_body<half, tiled<>::tile, as_it_is>{
                              at, x.data(), there.data(), {}, part.data(), steps});
    for_each(by.at.s, dw.size(),
             detail::add_parts_at<float>{place, part.data(), parts, dw.data(), into::overwrite});
    CHECK(std::vector<double>(dw.begin(), dw.end()) == wanted);
  }
}
