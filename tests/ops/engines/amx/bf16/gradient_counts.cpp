// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What wgrad of residual networks costs on tiles, counted: there is no time in it. The modelled
// share of peak takes 16 cycles for a product and 10 for a load, which overlap, 16 for a store, 192
// and 144 to copy 16 positions of 16 channels of dy and x (what they take on an Emerald Rapids
// Xeon), and for each sum that goes to dw 0.6, or 0.1 to add it to another group's.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/bf16/weight_gradient.hpp>

#include "tests/ops/engines/amx/bf16/residual_layers.hpp"
#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::counting_tiles;
using support::counted::layer, support::counted::resnet20, support::counted::resnet50;

namespace {

struct costs {
  double macs = 0, products = 0, loads = 0, copies = 0, cycles = 0;

  void add(const costs& c, double times) {
    macs += times * c.macs;
    products += times * c.products;
    loads += times * c.loads;
    copies += times * c.copies;
    cycles += times * c.cycles;
  }
  [[nodiscard]] double useful() const { return macs / (products * 16 * 16 * 32); }
  [[nodiscard]] double loads_per_product() const { return loads / products; }
  /// Transpositions and copies, of the cycles of the products.
  [[nodiscard]] double copies_per_product() const { return copies / (16 * products); }
  [[nodiscard]] double share_of_peak() const { return macs / 512 / cycles; }
};

costs count(const convolution_problem& p, int samples) {
  const amx_weight_gradient<counting_tiles> gradient(p, samples);
  const amx_gradient_plan& plan = gradient.plan();
  const auto n = static_cast<std::size_t>(samples);
  const std::vector<bfloat> x(n * sample_size(p.in, tile_block_size(p.in.channels))),
      dy(n * sample_size(p.out(), tile_block_size(p.filters)));
  std::vector<float> dw(p.weights()), workspace(plan.workspace());
  counting_tiles::counts = support::tile_counts{};
  gradient.run(x.data(), dy.data(), dw.data(), write_mode::overwrite, workspace.data(), {});
  const auto& counted = counting_tiles::counts;
  costs c{.macs = static_cast<double>(n) * static_cast<double>(p.macs()),
          .products = static_cast<double>(counted.products),
          .loads = static_cast<double>(counted.loads)};
  double planned = 0;
  for (int group = 0; group < plan.groups; ++group)
    plan.for_each_chunk(group, [&](const amx_gradient_plan::chunk& chunk) {
      const double products =
          static_cast<double>(plan.filter_tiles) * plan.column_tiles() * plan.steps(chunk);
      planned += products;
      c.copies += plan.cycles(chunk) - tile_product_cycles * products;
    });
  CHECK(planned == c.products);
  c.cycles = std::max(16 * c.products, 10 * c.loads) + 16 * static_cast<double>(counted.stores) +
             c.copies + 0.6 * static_cast<double>(p.weights()) +
             0.1 * static_cast<double>(workspace.size());
  return c;
}
costs count(const std::vector<layer>& layers, int samples) {
  costs all;
  for (const auto& [p, times] : layers) all.add(count(p, samples), times);
  return all;
}

void print(const char* name, const costs& c) {
  std::printf("| %s | %.3f | %.2f | %.2f | %.2f |\n", name, c.useful(), c.loads_per_product(),
              c.copies_per_product(), c.share_of_peak());
}

}  // namespace

TEST_CASE("amx gradient counts: the 3x3 windows of ResNet-50") {
  for (const auto& [p, times] : resnet50) {
    if (p.window != 3) continue;
    CAPTURE(p.in.channels);
    CAPTURE(p.stride);
    const costs c = count(p, 8);
    CHECK(c.useful() >= 0.87);
    CHECK(c.loads_per_product() <= 1.13);
    CHECK(c.copies_per_product() < 0.90);
    CHECK(c.share_of_peak() >= 0.34);
  }
}

TEST_CASE("amx gradient counts: residual networks") {
  const costs large = count(resnet50, 8), small = count(resnet20, 32);
  CHECK(large.useful() >= 0.93);
  CHECK(large.loads_per_product() <= 1.12);
  CHECK(large.copies_per_product() < 1.25);
  CHECK(large.share_of_peak() >= 0.36);
  CHECK(small.useful() >= 0.88);
  CHECK(small.loads_per_product() <= 1.25);
  CHECK(small.copies_per_product() < 1.90);
  CHECK(small.share_of_peak() >= 0.30);
}

TEST_CASE("amx gradient counts: the table" * doctest::skip()) {
  for (const auto* layers : {&resnet50, &resnet20}) {
    const int samples = layers == &resnet50 ? 8 : 32;
    std::printf("\nwgrad, %d samples\n", samples);
    for (const auto& [p, times] : *layers) {
      char name[80];
      std::snprintf(name, sizeof name, "%d x %d² → %d, %dx%d/%d | %d", p.in.channels, p.in.height,
                    p.filters, p.window, p.window, p.stride, times);
      print(name, count(p, samples));
    }
    print("all |", count(*layers, samples));
  }
}
