// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Parts, cuts and edges; that the sums are convolutions in all shapes, convolution_winograd.cpp
// says.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/winograd/correlation.hpp>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace cordee::detail;
using namespace support;

namespace {

/// Whole numbers, times `scale`.
std::vector<double> whole(std::size_t n, std::uint32_t seed, double scale = 1) {
  std::vector<double> v = random_numbers(n, seed);
  for (double& x : v) x = std::round(2 * x) * scale;
  return v;
}

/// From and to NCHW; added to `before` unless it is empty.
std::vector<double> by_tiles(const convolution_problem& p, bool back, int samples,
                             const std::vector<double>& x, const std::vector<double>& w,
                             const std::vector<double>& before, cpu::stream s) {
  constexpr int V = lanes<float>;
  const extent in = back ? p.out() : p.in, out = back ? p.in : p.out();
  const winograd_image<float, V> image(p);
  const std::vector<float> master(w.begin(), w.end()), from = blocked<float>(x, in, samples, V);
  std::vector<float> packed(image.size(), 99),
      to = before.empty() ? std::vector<float>(support::size(samples) * sample_size(out, V), 99)
                          : blocked<float>(before, out, samples, V);
  image.pack(master.data(), packed.data(), s);
  winograd_correlation<float, V>(p, back).run(
      samples, from.data(), packed.data() + (back ? image.forwards.size() : 0), to.data(),
      before.empty() ? into::overwrite : into::add, s);
  return plain(to, out, samples, V);
}

}  // namespace

TEST_CASE("winograd: rows of tiles are as many as a cache holds, or as weights are worth") {
  const winograd_tiles wide(extent{64, 56, 56}), small(extent{512, 7, 7});
  CHECK(wide.rows == 28);
  CHECK(small.columns == 4);
  const std::size_t rows = tile_rows_at_once<float>(wide, 64, 28);
  CHECK(rows * 28 * 64 * winograd_elements * sizeof(float) <= 524288);
  CHECK((rows + 1) * 28 * 64 * winograd_elements * sizeof(float) > 524288);
  CHECK(tile_rows_at_once<float>(small, 4096, 28) == 7);
  CHECK(tile_rows_at_once<float>(wide, 4096, 1) == 1);
}

TEST_CASE("winograd: whatever the parts of images and the cuts of filters, whole sums are exact") {
  for (const convolution_problem& p :
       {convolution_problem{{20, 5, 6}, 260, 3, 1, 1}, {{260, 3, 7}, 20, 3, 1, 1}})
    for (const int samples : {0, 1, 3})
      for (const int workers : {1, 2, 3}) {
        CAPTURE(to_text(p));
        CAPTURE(samples);
        CAPTURE(workers);
        const cpu device(workers);
        const std::size_t n = support::size(samples);
        const auto x = whole(n * p.in.size(), 1), w = whole(p.weights(), 2, 4),
                   dy = whole(n * p.out().size(), 3), before = whole(n * p.in.size(), 4);
        harness<direct, double> exact{p, samples};
        const cpu::stream s = device.open();
        CHECK(by_tiles(p, false, samples, x, w, {}, s) == exact.fprop(x, w));
        CHECK(by_tiles(p, true, samples, dy, w, {}, s) == exact.dgrad(dy, w));
        CHECK(by_tiles(p, true, samples, dy, w, before, s) == exact.dgrad(dy, w, before));
      }
}
