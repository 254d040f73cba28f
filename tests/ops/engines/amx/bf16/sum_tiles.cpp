// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/ops/engines/amx/bf16/sum_tiles.hpp>

#include "tests/ops/engines/amx/tested_unit.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::tested_unit;

namespace {

constexpr int pixels_of_tile = tile_rows, channels = tile_bytes / 2;

std::vector<bfloat> random_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<bfloat> numbers(count);
  random_sequence draw(seed, purpose::test, 0, 0);
  for (bfloat& x : numbers) x = bfloat::nearest(static_cast<float>(draw.normal()));
  return numbers;
}

/// A tiles of pixels by B of filters over some steps, beside sums in fp64 of the same numbers.
template <int A, int B>
void check_kernel(int steps) {
  CAPTURE(A);
  CAPTURE(B);
  CAPTURE(steps);
  constexpr int rows = A * pixels_of_tile, filters = B * tile_filters;
  constexpr std::ptrdiff_t tile = tile_rows * tile_bytes / 2;
  const auto s = static_cast<std::size_t>(steps);
  const auto x = random_numbers(s * rows * channels, 1);              // (steps, rows, channels)
  const auto weights = random_numbers(s * B * std::size_t{tile}, 2);  // (steps, B, 16, 16, 2)
  std::vector<std::ptrdiff_t> offsets, targets;
  for (int k = 0; k < steps; ++k) offsets.push_back(std::ptrdiff_t{k} * rows * channels);
  for (int m = 0; m < rows; ++m) targets.push_back(std::ptrdiff_t{m} * filters);
  tile_shapes shapes;
  for (int t = 0; t < 8; ++t) shapes.set(t, tile_rows, tile_bytes);
  tested_unit unit(shapes);
  tile_operands of{{}, tile_bytes, offsets.data(), steps, weights.data(), tile};
  for (int a = 0; a < A; ++a) of.x[a] = x.data() + a * pixels_of_tile * channels;
  std::vector<float> sums(deferred_sums::size);
  std::vector<bfloat> y(std::size_t{rows} * filters);
  work_between work{.sums = deferred_sums(sums.data())};
  sum_tiles<A, B>(unit, of,
                  {targets.data(), rows, y.data(), B == 2 ? tile_filters : 0, false, 1, 0}, work);
  CHECK(work.sums.left() == rows);
  work.sums.finish();
  int wrong = 0;
  for (int m = 0; m < rows; ++m)
    for (int f = 0; f < filters; ++f) {
      double sum = 0, size = 0;
      for (int k = 0; k < steps; ++k)
        for (int c = 0; c < channels; ++c) {
          const double product =
              double{x[static_cast<std::size_t>(offsets[static_cast<std::size_t>(k)] +
                                                m * channels + c)]
                         .exact()} *
              double{weights[static_cast<std::size_t>((k * B + f / tile_filters) * tile +
                                                      c / 2 * tile_bytes / 2 +
                                                      f % tile_filters * 2 + c % 2)]
                         .exact()};
          sum += product;
          size += std::abs(product);
        }
      // Each addition in fp32 errs by half a unit of at most `size`, the last rounding by 2^-8.
      const double bound = std::abs(sum) * 0x1p-8 + size * (steps * channels) * 0x1p-23;
      const double error = std::abs(y[static_cast<std::size_t>(m * filters + f)].exact() - sum);
      wrong += !(error <= bound);
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("amx sum_tiles: each kernel's sums are those of its operands" *
          doctest::skip(!support::has_tested_unit())) {
  for (const int steps : {1, 2, 9}) {
    check_kernel<1, 1>(steps);
    check_kernel<2, 1>(steps);
    check_kernel<3, 1>(steps);
    check_kernel<4, 1>(steps);
    check_kernel<1, 2>(steps);
    check_kernel<2, 2>(steps);
  }
}
