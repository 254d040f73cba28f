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

#include "tests/ops/engines/amx/bf16/residual_layers.hpp"
#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::counting_tiles;
using support::counted::layer, support::counted::resnet20, support::counted::resnet50;

namespace {

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
