// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

constexpr extent image{3, 32, 32};

template <int Depth, shortcut S>
using table = parameter_table<resnet_layers<Depth, resnet_options{.shortcut = S}>, image>;

template <class T>
void check_table() {
  std::set<std::string_view> names;
  std::size_t expected = 0;
  bool statistics = false;
  for (const segment& s : T::segments) {
    names.insert(s.name);
    CHECK(s.offset == expected);
    CHECK(s.offset % detail::core::segment_alignment == 0);
    CHECK(s.size > 0);
    std::size_t size = 1;
    for (const int n : s.shape)
      if (n != 0) size *= static_cast<std::size_t>(n);
    CHECK(s.size == size);
    CHECK((s.kind == kind::statistic || !statistics));  // statistics come last
    statistics = s.kind == kind::statistic;
    expected = s.offset + detail::core::align_up(s.size);
  }
  CHECK(names.size() == T::segments.size());
  CHECK(detail::core::count_trainable(T::segments) == T::totals.trainable);
  CHECK(expected == T::totals.trainable_end + T::totals.statistics_end);
}

}  // namespace

TEST_CASE("table: segments are contiguous and aligned, names are unique, statistics come last") {
  check_table<table<8, shortcut::a>>();
  check_table<table<20, shortcut::b>>();
  check_table<table<110, shortcut::a>>();
}

TEST_CASE("table: a ResNet-8 with projections has torchvision's names in torchvision's order") {
  std::vector<std::string> names;
  for (const segment& s : table<8, shortcut::b>::segments)
    if (s.kind != kind::statistic) names.emplace_back(s.name);
  CHECK(names == std::vector<std::string>{"conv1.weight",
                                          "bn1.weight",
                                          "bn1.bias",
                                          "layer1.0.conv1.weight",
                                          "layer1.0.bn1.weight",
                                          "layer1.0.bn1.bias",
                                          "layer1.0.conv2.weight",
                                          "layer1.0.bn2.weight",
                                          "layer1.0.bn2.bias",
                                          "layer2.0.conv1.weight",
                                          "layer2.0.bn1.weight",
                                          "layer2.0.bn1.bias",
                                          "layer2.0.conv2.weight",
                                          "layer2.0.bn2.weight",
                                          "layer2.0.bn2.bias",
                                          "layer2.0.downsample.0.weight",
                                          "layer2.0.downsample.1.weight",
                                          "layer2.0.downsample.1.bias",
                                          "layer3.0.conv1.weight",
                                          "layer3.0.bn1.weight",
                                          "layer3.0.bn1.bias",
                                          "layer3.0.conv2.weight",
                                          "layer3.0.bn2.weight",
                                          "layer3.0.bn2.bias",
                                          "layer3.0.downsample.0.weight",
                                          "layer3.0.downsample.1.weight",
                                          "layer3.0.downsample.1.bias",
                                          "fc.weight",
                                          "fc.bias"});
}

TEST_CASE("table: the blocks of ResNet-110 have two-digit numbers") {
  std::set<std::string_view> names;
  for (const segment& s : table<110, shortcut::a>::segments) names.insert(s.name);
  CHECK(names.contains("layer3.17.bn2.running_var"));
  CHECK(names.contains("layer1.9.conv2.weight"));
  CHECK_FALSE(names.contains("layer3.18.conv1.weight"));
}

TEST_CASE("registry: names have as many digits as the number, where ResNet-1202 has block 100") {
  parameter_registry::totals counted;
  std::vector<parameter_registry::entry> entries(1);
  std::vector<char> names(64);
  const auto name_in_block = [&](int block) {
    parameter_registry registry(counted, entries.data(), names.data());
    registry.enter_stage();
    for (int k = 0; k < block; ++k) registry.leave(registry.enter_block());
    registry.enter_block();
    registry.enter_convolution();
    registry.add_tensor("weight", kind::weight, {1}, {});
    return std::string(names.data(), entries[0].length);
  };
  for (const int block : {0, 9, 10, 99, 100, 199, 1000})
    CHECK(name_in_block(block) == "layer1." + std::to_string(block) + ".conv1.weight");
}

TEST_CASE("table: kinds and shapes") {
  const auto find = [](std::string_view name) {
    for (const segment& s : table<20, shortcut::b>::segments)
      if (s.name == name) return s;
    return segment{};
  };
  using dimensions = std::array<int, 6>;
  CHECK(find("conv1.weight").shape == dimensions{16, 3, 3, 3});
  CHECK(find("conv1.weight").kind == kind::weight);
  CHECK(find("layer2.0.downsample.0.weight").shape == dimensions{32, 16, 1, 1});
  CHECK(find("bn1.weight").kind == kind::scale);
  CHECK(find("bn1.bias").kind == kind::shift);
  CHECK(find("bn1.running_mean").kind == kind::statistic);
  CHECK(find("bn1.running_var").shape == dimensions{16, 0, 0, 0});
  CHECK(find("fc.weight").shape == dimensions{10, 64, 0, 0});
  CHECK(find("fc.weight").kind == kind::weight);
  CHECK(find("fc.bias").kind == kind::bias);
}
