// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of images and of filters, and edges; tests/ops/engines/winograd/engine.cpp tests all
// shapes.
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/winograd/correlation.hpp>

#include "tests/support/direct_engines.hpp"

using namespace cordee;
using namespace cordee::detail::precision;
using namespace cordee::detail::ops;
using namespace support;

namespace {

std::vector<double> integers(std::size_t n, std::uint32_t seed) {
  std::vector<double> v = random_numbers(n, seed);
  for (double& x : v) x = std::round(2 * x);
  return v;
}

/// From and to NCHW, rounded to integers; added to `before` unless it is empty.
std::vector<double> run_on_tiles(const convolution_problem& p, bool dgrad, int samples,
                                 const std::vector<double>& x, const std::vector<double>& w,
                                 const std::vector<double>& before, cpu::stream s) {
  constexpr int V = lanes<float>;
  const extent in = dgrad ? p.out() : p.in, out = dgrad ? p.in : p.out();
  const winograd_packed_weights<float, V> weights(p);
  const std::vector<float> master(w.begin(), w.end()),
      from = nchw_to_blocked<float>(x, in, samples, V);
  std::vector<float> packed(weights.size(), 99),
      to = before.empty() ? std::vector<float>(support::size(samples) * sample_size(out, V), 99)
                          : nchw_to_blocked<float>(before, out, samples, V);
  weights.pack(master.data(), packed.data(), s);
  winograd_correlation<float, V>(p, dgrad).run(
      samples, from.data(), packed.data() + (dgrad ? weights.fprop.size() : 0), to.data(),
      before.empty() ? write_mode::overwrite : write_mode::add, s);
  std::vector<double> y = plain(to, out, samples, V);
  for (double& sum : y) sum = std::round(sum);
  return y;
}

}  // namespace

TEST_CASE("tile_rows_per_step: as many as the cache holds, at least the given number of tiles") {
  const winograd_tiles wide(4, {64, 56, 56}), small(4, {512, 7, 7});
  CHECK(wide.rows == 28);
  CHECK(small.columns == 2);
  const std::size_t rows = tile_rows_per_step<float>(wide, 64, 28);
  CHECK(rows * 14 * 64 * winograd_elements(4) * sizeof(float) <= 524288);
  CHECK((rows + 1) * 14 * 64 * winograd_elements(4) * sizeof(float) > 524288);
  CHECK(tile_rows_per_step<float>(small, 4096, 28) == 14);
  CHECK(tile_rows_per_step<float>(wide, 4096, 1) == 1);
}

TEST_CASE(
    "winograd_correlation: sums of integers are rounded to them, with any parts of images and "
    "filters") {
  for (const convolution_problem& p :
       {convolution_problem{{20, 5, 6}, 260, 3, 1, 1}, {{260, 3, 9}, 20, 3, 1, 1}})
    for (const int samples : {0, 1, 3})
      for (const int workers : {1, 2, 3}) {
        CAPTURE(describe(p));
        CAPTURE(samples);
        CAPTURE(workers);
        const cpu device(workers);
        const std::size_t n = support::size(samples);
        const auto x = integers(n * p.in.size(), 1), w = integers(p.weights(), 2),
                   dy = integers(n * p.out().size(), 3), before = integers(n * p.in.size(), 4);
        harness<direct, double> exact{p, samples};
        const cpu::stream s = device.make_stream();
        CHECK(run_on_tiles(p, false, samples, x, w, {}, s) == exact.fprop(x, w));
        CHECK(run_on_tiles(p, true, samples, dy, w, {}, s) == exact.dgrad(dy, w));
        CHECK(run_on_tiles(p, true, samples, dy, w, before, s) == exact.dgrad(dy, w, before));
      }
}
