// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What fprop and dgrad of residual networks cost on tiles, counted: there is no time in it. The
// modelled share of peak takes 16 cycles for a product, 10 for a load (8 from the first-level
// cache, about 20 from the second), which overlap, 16 for a store, and 4 for each 64 bytes that are
// copied into planes or rounded to y.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/correlation.hpp>
#include <cordee/ops/engines/amx/bf16/packed_weights.hpp>

#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::counting_tiles;

namespace {

struct layer {
  convolution_problem p;
  int times;
};

/// The different layers, and how often each occurs.
const std::vector<layer> resnet50{
    {{{3, 224, 224}, 64, 7, 2, 3}, 1},   {{{64, 56, 56}, 64, 1, 1, 0}, 1},
    {{{256, 56, 56}, 64, 1, 1, 0}, 2},   {{{64, 56, 56}, 64, 3, 1, 1}, 3},
    {{{64, 56, 56}, 256, 1, 1, 0}, 4},   {{{256, 56, 56}, 128, 1, 1, 0}, 1},
    {{{128, 56, 56}, 128, 3, 2, 1}, 1},  {{{512, 28, 28}, 128, 1, 1, 0}, 3},
    {{{128, 28, 28}, 128, 3, 1, 1}, 3},  {{{128, 28, 28}, 512, 1, 1, 0}, 4},
    {{{256, 56, 56}, 512, 1, 2, 0}, 1},  {{{512, 28, 28}, 256, 1, 1, 0}, 1},
    {{{256, 28, 28}, 256, 3, 2, 1}, 1},  {{{1024, 14, 14}, 256, 1, 1, 0}, 5},
    {{{256, 14, 14}, 256, 3, 1, 1}, 5},  {{{256, 14, 14}, 1024, 1, 1, 0}, 6},
    {{{512, 28, 28}, 1024, 1, 2, 0}, 1}, {{{1024, 14, 14}, 512, 1, 1, 0}, 1},
    {{{512, 14, 14}, 512, 3, 2, 1}, 1},  {{{2048, 7, 7}, 512, 1, 1, 0}, 2},
    {{{512, 7, 7}, 512, 3, 1, 1}, 2},    {{{512, 7, 7}, 2048, 1, 1, 0}, 3},
    {{{1024, 14, 14}, 2048, 1, 2, 0}, 1}};
const std::vector<layer> resnet20{
    {{{3, 32, 32}, 16, 3, 1, 1}, 1},  {{{16, 32, 32}, 16, 3, 1, 1}, 6},
    {{{16, 32, 32}, 32, 3, 2, 1}, 1}, {{{32, 16, 16}, 32, 3, 1, 1}, 5},
    {{{32, 16, 16}, 64, 3, 2, 1}, 1}, {{{64, 8, 8}, 64, 3, 1, 1}, 5}};

struct costs {
  double macs = 0, products = 0, loads = 0, stores = 0, copied = 0, written = 0;  // bytes

  void add(const costs& c, double times) {
    macs += times * c.macs;
    products += times * c.products;
    loads += times * c.loads;
    stores += times * c.stores;
    copied += times * c.copied;
    written += times * c.written;
  }
  [[nodiscard]] double useful() const { return macs / (products * 16 * 16 * 32); }
  [[nodiscard]] double loads_per_product() const { return loads / products; }
  /// Of the cycles of the products.
  [[nodiscard]] double other_work() const {
    return (16 * stores + (copied + written) / 16) / (16 * products);
  }
  [[nodiscard]] double share_of_peak() const {
    const double products_or_loads = std::max(16 * products, 10 * loads);
    return macs / 512 / (products_or_loads + 16 * products * other_work());
  }
};

costs count(const convolution_problem& p, bool backward, int samples) {
  const auto plan = plan_tile_correlation(p, backward, samples);
  const std::size_t x_size = sample_size(plan.in, plan.in_block),
                    y_size = sample_size(plan.out, plan.out_block),
                    n = static_cast<std::size_t>(samples);
  const std::vector<bfloat> x(n * x_size), packed(tile_packed_weights(p, backward).size());
  std::vector<bfloat> y(n * y_size);
  counting_tiles::counts = support::tile_counts{};
  tile_correlation<counting_tiles>(p, backward)
      .run(samples, x.data(), packed.data(), y.data(), write_mode::overwrite, {});
  const auto& counted = counting_tiles::counts;
  // One group is as the plan says.
  CHECK(counted.products * static_cast<std::size_t>(plan.together) ==
        static_cast<std::size_t>(plan.products()) * n);
  return {static_cast<double>(n) * static_cast<double>(p.macs()),
          static_cast<double>(counted.products),
          static_cast<double>(counted.loads),
          static_cast<double>(counted.stores),
          plan.in_place ? 0 : static_cast<double>(n * x_size * 2),
          static_cast<double>(n * y_size * 2)};
}
/// Both directions; but for the first layer, whose input has no gradient.
std::array<costs, 2> count(const std::vector<layer>& layers, int samples) {
  std::array<costs, 2> all{};
  for (const auto& [p, times] : layers)
    for (const bool backward : {false, true})
      if (!backward || p.in.channels > 3) all[backward].add(count(p, backward, samples), times);
  return all;
}

void print(const char* name, const costs& c) {
  std::printf("| %s | %.3f | %.2f | %.2f | %.2f |\n", name, c.useful(), c.loads_per_product(),
              c.other_work(), c.share_of_peak());
}

}  // namespace

TEST_CASE("amx counts: the 3x3 windows of ResNet-50") {
  for (const auto& [p, times] : resnet50)
    for (const bool backward : {false, true}) {
      if (p.window != 3) continue;
      CAPTURE(p.in.channels);
      CAPTURE(p.stride);
      CAPTURE(backward);
      const costs c = count(p, backward, 16);
      CHECK(c.useful() >= (p.stride == 2 && p.in.height < 56 && !backward ? 0.87 : 0.96));
      CHECK(c.loads_per_product() <= 1.08);
      CHECK(c.other_work() < (p.stride == 2 ? 0.4 : 0.28));
      CHECK(c.share_of_peak() >= (p.stride == 2 ? 0.71 : 0.76));
    }
}

TEST_CASE("amx counts: residual networks, forward and backward") {
  const auto large = count(resnet50, 8), small = count(resnet20, 32);
  for (const costs& c : large) {
    CHECK(c.useful() >= 0.95);
    CHECK(c.loads_per_product() <= 1.03);
    CHECK(c.other_work() < 0.33);
    CHECK(c.share_of_peak() >= 0.72);
  }
  for (const costs& c : small) {
    CHECK(c.useful() >= 0.86);
    CHECK(c.loads_per_product() <= 1.12);
    CHECK(c.other_work() < 0.66);
    CHECK(c.share_of_peak() >= 0.52);
  }
}

TEST_CASE("amx counts: the table" * doctest::skip()) {
  for (const auto* layers : {&resnet50, &resnet20}) {
    const int samples = layers == &resnet50 ? 8 : 32;
    for (const bool backward : {false, true}) {
      std::printf("\n%s, %d samples\n", backward ? "dgrad" : "fprop", samples);
      for (const auto& [p, times] : *layers) {
        if (backward && p.in.channels == 3) continue;
        char name[80];
        std::snprintf(name, sizeof name, "%d x %d² → %d, %dx%d/%d | %d", p.in.channels, p.in.height,
                      p.filters, p.window, p.window, p.stride, times);
        print(name, count(p, backward, samples));
      }
      print("all |", count(*layers, samples)[backward]);
    }
  }
}
