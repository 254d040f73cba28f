// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the layers of residual networks cost, counted: there is no time in it. The modelled share of
// peak takes 16 cycles for a product, 10 for a load (8 from the first-level cache, about 20 from
// the second), which overlap, 16 for a store, and 2 for each 64 bytes that are copied into planes.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/byte_correlation.hpp>

#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::counting_tiles;

namespace {

constexpr int V = 16;  // of AVX-512, on any machine: nothing is computed
using correlation = byte_correlation_by_tiles<V, counting_tiles>;

std::vector<convolution_problem> resnet50() {
  std::vector<convolution_problem> all{{{3, 224, 224}, 64, 7, 2, 3}};
  int size = 56, channels = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int b = 0, width = 64 << stage; b < blocks[stage]; ++b) {
      const int stride = stage > 0 && b == 0 ? 2 : 1;
      all.push_back({{channels, size, size}, width, 1, 1, 0});
      all.push_back({{width, size, size}, width, 3, stride, 1});
      if (b == 0) all.push_back({{channels, size, size}, 4 * width, 1, stride, 0});
      size /= stride;
      channels = 4 * width;
      all.push_back({{width, size, size}, channels, 1, 1, 0});
    }
  return all;
}
std::vector<convolution_problem> resnet20() {
  std::vector<convolution_problem> all{{{3, 32, 32}, 16, 3, 1, 1}};
  for (int stage = 0, size = 32, channels = 16; stage < 3; ++stage)
    for (int i = 0; i < 6; ++i) {
      const int stride = stage > 0 && i == 0 ? 2 : 1;
      all.push_back({{channels, size, size}, 16 << stage, 3, stride, 1});
      size /= stride;
      channels = 16 << stage;
    }
  return all;
}

struct costs {
  double macs = 0, products = 0, loads = 0, stores = 0, copied = 0;

  costs& operator+=(const costs& c) {
    macs += c.macs;
    products += c.products;
    loads += c.loads;
    stores += c.stores;
    copied += c.copied;
    return *this;
  }
  [[nodiscard]] double useful() const { return macs / (products * 16 * 16 * 64); }
  [[nodiscard]] double cycles() const {
    return std::max(16 * products, 10 * loads) + 16 * stores + copied / 32;
  }
  [[nodiscard]] double modelled_share_of_peak() const { return macs / (1024 * cycles()); }
};

costs count(const convolution_problem& p, std::size_t samples) {
  const correlation c(p);
  const std::vector<std::uint8_t> x(sample_size(p.in, c.block()));
  const std::vector<std::int8_t> packed(c.packed_size());
  const std::vector<std::int32_t> initial(channel_blocks(p.filters, V) * V);
  byte_scratch memory;
  std::size_t outputs = 0;
  counting_tiles::counts = support::tile_counts{};
  c.run_samples(
      memory, samples, [&](std::size_t) { return x.data(); }, 0, 1, packed.data(), initial.data(),
      [&](std::size_t, const byte_sums_chunk& sums) { outputs += sums.pixels * V; });
  const auto& n = counting_tiles::counts;
  CHECK(n.units == 1);
  CHECK(outputs == samples * sample_size(p.out(), V));
  return {static_cast<double>(samples) * static_cast<double>(p.macs()),
          static_cast<double>(n.products), static_cast<double>(n.loads),
          static_cast<double>(n.stores),
          static_cast<double>(samples * c.planes().size(p.out().height))};
}
costs count(const std::vector<convolution_problem>& layers, std::size_t samples) {
  costs all;
  for (const convolution_problem& p : layers) all += count(p, samples);
  return all;
}

}  // namespace

TEST_CASE("byte_counts: ResNet-50 by one image and by eight") {
  const costs one = count(resnet50(), 1), eight = count(resnet50(), 8);
  CHECK(one.useful() >= 0.89);
  CHECK(eight.useful() >= 0.92);
  CHECK(one.modelled_share_of_peak() >= 0.725);
  CHECK(eight.modelled_share_of_peak() >= 0.745);
  for (const costs& c : {one, eight}) {
    CHECK(c.loads <= 1.18 * c.products);
    CHECK(c.copied <= 38 * c.products);  // bytes
  }
}

TEST_CASE("byte_counts: windows of 3x3, the stem and the classifier of ResNet-50") {
  for (const convolution_problem& p : resnet50()) {
    if (p.window == 1) continue;
    CAPTURE(p.in.channels);
    const costs c = count(p, 1);
    CHECK(c.useful() >= (p.window == 7 ? 0.55 : p.out().width == 7 ? 0.76 : 0.87));
    CHECK(c.loads <= (p.window == 7 ? 1.26 : 1.12) * c.products);
    CHECK(c.modelled_share_of_peak() >= (p.window == 7 ? 0.43 : 0.73));
  }
  // Four bytes of each of 2,048 features: four pixels, of 16 in a tile; of four images all 16.
  const convolution_problem classifier{{2048, 1, 4}, 2000, 1, 1, 0};
  CHECK(count(classifier, 1).useful() == 0.25);
  CHECK(count(classifier, 4).useful() == 1);
}

TEST_CASE("byte_counts: ResNet-20, whose channels fill 48 of 64 bytes") {
  for (const std::size_t samples : {1u, 8u}) {
    const costs c = count(resnet20(), samples);
    CHECK(c.useful() >= 0.70);
    CHECK(c.loads <= 1.46 * c.products);
    CHECK(c.copied <= 63 * c.products);
    CHECK(c.modelled_share_of_peak() >= 0.52);
  }
}
