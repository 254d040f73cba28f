// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the layers of residual networks cost, counted: there is no time in it. The modelled share of
// peak takes 16 cycles for a product, 10 for a load (8 from the first-level cache, about 20 from
// the second), which overlap, 16 for a store, and 2 for each 64 bytes that are copied into planes.
// Requantization overlaps with the products of the next kernel: four pixels of 16 filters take the
// vector instructions of their epilogue (infer/cpu/requantize_epilogue.hpp, compiled by g++ 12 for
// Sapphire Rapids) on the two ports that take 512 bits.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/int8/byte_correlation.hpp>

#include "tests/ops/engines/amx/bf16/residual_layers.hpp"
#include "tests/ops/engines/amx/int8/counting_tiles.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using support::counting_tiles;
using support::counted::layer, support::counted::resnet20, support::counted::resnet50;

namespace {

constexpr int V = 16;  // of AVX-512, on any machine: nothing is computed
using correlation = byte_correlation_by_tiles<V, counting_tiles>;

/// What a layer writes: bytes; a stream of 32 bits; or a stream to which a shortcut is added.
enum class output { bytes, stream, sum };
/// Cycles of a slice: when it followed its products, and now.
constexpr std::array<double, 3> slice_before{19, 26, 46}, slice_now{15, 22, 40};

output output_of(const convolution_problem& p) {
  if (p.in.channels == 3) return p.filters == 64 ? output::stream : output::bytes;
  if (p.window == 3 && p.in.channels < 64) return output::sum;  // half of ResNet-20's
  if (p.window == 1 && p.filters > p.in.channels)
    return p.filters == 4 * p.in.channels ? output::sum : output::stream;
  return output::bytes;
}

/// Counts slices instead of computing them.
struct counted_slices {
  double calls = 0, behind = 0;  // all; those behind the last product
  std::size_t products = 0, outputs = 0;

  void add(double slices, std::size_t pixels) {
    calls += slices;
    outputs += pixels * V;
    const std::size_t now = counting_tiles::counts.products;
    behind = now == products ? behind + slices : slices;
    products = now;
  }
};
struct counting_epilogue {
  counted_slices* slices;

  struct block {
    counted_slices* slices;
    void operator()(std::size_t, const vec<std::int32_t, V>&) const { slices->add(0.5, 1); }
    void finish_four(std::size_t, const std::int32_t*) const { slices->add(1, 4); }
  };
  block of_block(std::size_t, std::uint8_t*) const { return {slices}; }
  void prefetch(const std::uint8_t*) const {}
};

struct costs {
  double macs = 0, products = 0, loads = 0, stores = 0, copied = 0;
  double slices = 0, cycles_before = 0, cycles_now = 0;  // with requantization

  costs& operator+=(const costs& c) {
    slices += c.slices;
    cycles_before += c.cycles_before;
    cycles_now += c.cycles_now;
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
  [[nodiscard]] double requantized_share_before() const { return macs / (1024 * cycles_before); }
  [[nodiscard]] double requantized_share() const { return macs / (1024 * cycles_now); }
};

costs count(const convolution_problem& p, std::size_t samples) {
  const correlation c(p);
  const std::vector<std::uint8_t> x(sample_size(p.in, c.block()));
  const std::vector<std::int8_t> packed(c.packed_size());
  const std::vector<std::int32_t> initial(channel_blocks(p.filters, V) * V);
  byte_scratch memory;
  std::vector<std::uint8_t> y(sample_size(p.out(), V));
  counted_slices slices;
  counting_tiles::counts = support::tile_counts{};
  c.run_fused(
      memory, samples, [&](std::size_t) { return x.data(); }, 0, 1, packed.data(), initial.data(),
      [&](std::size_t) { return y.data(); },
      [&](std::size_t, int) { return counting_epilogue{&slices}; }, c.region_of({}));
  const auto& n = counting_tiles::counts;
  CHECK(n.units == 1);
  CHECK(slices.outputs == samples * sample_size(p.out(), V));
  costs all{.macs = static_cast<double>(samples) * static_cast<double>(p.macs()),
            .products = static_cast<double>(n.products),
            .loads = static_cast<double>(n.loads),
            .stores = static_cast<double>(n.stores),
            .copied = static_cast<double>(samples * c.planes().size(p.out().height)),
            .slices = slices.calls};
  const auto kind = static_cast<std::size_t>(output_of(p));
  const double tiles = std::max(16 * all.products, 10 * all.loads),
               overlapped = slice_now[kind] * (slices.calls - slices.behind);
  all.cycles_before = all.cycles() + slice_before[kind] * slices.calls;
  all.cycles_now =
      all.cycles() - tiles + std::max(tiles, overlapped) + slice_now[kind] * slices.behind;
  return all;
}
costs count(const std::vector<layer>& layers, std::size_t samples) {
  costs all;
  for (const auto& [p, times] : layers) {
    const costs one = count(p, samples);
    for (int i = 0; i < times; ++i) all += one;
  }
  return all;
}

void print(const char* name, const costs& c) {
  std::printf("| %s | %.3f | %.2f | %.2f | %.2f | %.2f |\n", name, c.useful(),
              c.slices / c.products, c.modelled_share_of_peak(), c.requantized_share_before(),
              c.requantized_share());
}

}  // namespace

TEST_CASE("byte_counts: ResNet-50 by one image and by eight") {
  const costs one = count(resnet50, 1), eight = count(resnet50, 8);
  CHECK(one.useful() >= 0.89);
  CHECK(eight.useful() >= 0.92);
  CHECK(one.modelled_share_of_peak() >= 0.725);
  CHECK(eight.modelled_share_of_peak() >= 0.745);
  for (const costs& c : {one, eight}) {
    CHECK(c.requantized_share() >= 0.45);  // 0.34 if it followed the products
    CHECK(c.loads <= 1.18 * c.products);
    CHECK(c.copied <= 38 * c.products);  // bytes
  }
}

TEST_CASE("byte_counts: windows of 3x3, the stem and the classifier of ResNet-50") {
  for (const auto& [p, times] : resnet50) {
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
    const costs c = count(resnet20, samples);
    CHECK(c.useful() >= 0.70);
    CHECK(c.loads <= 1.46 * c.products);
    CHECK(c.copied <= 63 * c.products);
    CHECK(c.modelled_share_of_peak() >= 0.52);
  }
}

TEST_CASE("byte_counts: the table" * doctest::skip()) {
  for (const auto* layers : {&resnet50, &resnet20})
    for (const std::size_t samples : {1u, 8u}) {
      std::printf("\n%zu samples\n", samples);
      for (const auto& [p, times] : *layers) {
        constexpr const char* names[] = {"bytes", "stream", "sum"};
        char name[80];
        std::snprintf(name, sizeof name, "%d x %d² → %d, %dx%d/%d | %d | %s", p.in.channels,
                      p.in.height, p.filters, p.window, p.window, p.stride, times,
                      names[static_cast<std::size_t>(output_of(p))]);
        print(name, count(p, samples));
      }
      print("all | |", count(*layers, samples));
    }
}
