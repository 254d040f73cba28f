// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>

using namespace cordee;

namespace {

constexpr extent image{3, 32, 32};

template <int Depth, shortcut S>
using table = parameter_table<resnet_layers<Depth, shape{.shortcut = S}>, image>;

template <class T>
void check_table() {
  std::set<std::string_view> names;
  std::size_t expected = 0;
  bool statistics = false;
  for (const segment& one : T::segments) {
    names.insert(one.name);
    CHECK(one.offset == expected);
    CHECK(one.offset % segment_alignment == 0);
    CHECK(one.size > 0);
    std::size_t size = 1;
    for (const int n : one.shape)
      if (n != 0) size *= static_cast<std::size_t>(n);
    CHECK(one.size == size);
    CHECK((one.what == kind::statistic || !statistics));  // statistics stand at the tail
    statistics = one.what == kind::statistic;
    expected = one.offset + aligned(one.size);
  }
  CHECK(names.size() == T::segments.size());
  CHECK(count_trainable(T::segments) == T::totals.trainable);
  CHECK(expected == T::totals.trainable_end + T::totals.statistics_end);
}

}  // namespace

TEST_CASE("table: segments follow one another aligned, names differ, statistics come last") {
  check_table<table<8, shortcut::a>>();
  check_table<table<20, shortcut::b>>();
  check_table<table<110, shortcut::a>>();
}

TEST_CASE("table: a ResNet-8 with projections has torchvision's names in torchvision's order") {
  std::vector<std::string> names;
  for (const segment& one : table<8, shortcut::b>::segments)
    if (one.what != kind::statistic) names.emplace_back(one.name);
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

TEST_CASE("table: the eighteenth block of ResNet-110 is called 17") {
  std::set<std::string_view> names;
  for (const segment& one : table<110, shortcut::a>::segments) names.insert(one.name);
  CHECK(names.contains("layer3.17.bn2.running_var"));
  CHECK(names.contains("layer1.9.conv2.weight"));
  CHECK_FALSE(names.contains("layer3.18.conv1.weight"));
}

TEST_CASE("table: kinds and shapes are what files and rules expect") {
  const auto find = [](std::string_view name) {
    for (const segment& one : table<20, shortcut::b>::segments)
      if (one.name == name) return one;
    return segment{};
  };
  using dimensions = std::array<int, 4>;
  CHECK(find("conv1.weight").shape == dimensions{16, 3, 3, 3});
  CHECK(find("conv1.weight").what == kind::weight);
  CHECK(find("layer2.0.downsample.0.weight").shape == dimensions{32, 16, 1, 1});
  CHECK(find("bn1.weight").what == kind::scale);
  CHECK(find("bn1.bias").what == kind::shift);
  CHECK(find("bn1.running_mean").what == kind::statistic);
  CHECK(find("bn1.running_var").shape == dimensions{16, 0, 0, 0});
  CHECK(find("fc.weight").shape == dimensions{10, 64, 0, 0});
  CHECK(find("fc.weight").what == kind::weight);
  CHECK(find("fc.bias").what == kind::bias);
}
