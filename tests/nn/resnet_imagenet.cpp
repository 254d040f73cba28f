// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <cordee/nn/resnet.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

/// Without a network.
template <int Depth, resnet_options S = resnet_options{}>
using table = parameter_table<resnet_layers<Depth, S>, resnet_layers<Depth, S>::resolved.image>;

template <class T>
constexpr bool has(int convolutions, std::size_t tensors, std::int64_t parameters) {
  return T::totals.convolutions == convolutions && T::totals.trainable == tensors &&
         T::totals.parameters == parameters &&
         T::totals.statistics == 2 * static_cast<std::size_t>(convolutions);
}
/// Whether the multiplications are the published number, which is rounded.
template <class T>
constexpr bool has_macs(std::int64_t macs, std::int64_t rounding) {
  const std::int64_t difference = T::totals.macs - macs;
  return -rounding <= difference && difference <= rounding;
}

// torchvision
static_assert(has<table<18>>(20, 62, 11'689'512) && has_macs<table<18>>(1'814'000'000, 500'000));
static_assert(has<table<34>>(36, 110, 21'797'672) && has_macs<table<34>>(3'664'000'000, 500'000));
static_assert(has<table<50>>(53, 161, 25'557'032) && has_macs<table<50>>(4'089'184'256, 0));
static_assert(has<table<101>>(104, 314, 44'549'160) &&
              has_macs<table<101>>(7'801'000'000, 500'000));
static_assert(has<table<152>>(155, 467, 60'192'808) &&
              has_macs<table<152>>(11'514'000'000, 500'000));
constexpr resnet_options of_cifar{.image = {3, 32, 32}, .classes = 10, .stem = stem::small};
static_assert(has<table<18, of_cifar>>(20, 62, 11'173'962) &&
              has_macs<table<18, of_cifar>>(555'422'720, 0));

template <resnet_options S>
constexpr bool has_sides(std::array<int, 5> sides) {
  using blocks = detail::nn::imagenet_blocks<S>;
  std::array<int, 5> heights{};
  extent e = blocks::first::out(S.image);
  heights[0] = e.height;
  heights[1] = (e = blocks::template equal_stage<true, 64, 1, 3>::out(e)).height;
  heights[2] = (e = blocks::template equal_stage<true, 128, 2, 4>::out(e)).height;
  heights[3] = (e = blocks::template equal_stage<true, 256, 2, 6>::out(e)).height;
  heights[4] = (e = blocks::template equal_stage<true, 512, 2, 3>::out(e)).height;
  return heights == sides && e.channels == 2048 && e.width == e.height;
}
static_assert(has_sides<detail::nn::imagenet_defaults({})>({56, 56, 28, 14, 7}));
static_assert(has_sides<detail::nn::imagenet_defaults(of_cifar)>({32, 32, 16, 8, 4}));

// Defaults of the family for options that are not set.
static_assert(resnet_layers<50, resnet_options{}>::resolved.image == extent{3, 224, 224});
static_assert(resnet_layers<50, resnet_options{}>::resolved.classes == 1000);
static_assert(resnet_layers<20, resnet_options{}>::resolved.image == extent{3, 32, 32});
static_assert(resnet_layers<20, resnet_options{}>::resolved.classes == 10);
static_assert(
    resnet_layers<18, resnet_options{.image = {1, 64, 96}, .classes = 7}>::resolved.classes == 7);
static_assert(resnet_layers<18, resnet_options{.image = {1, 64, 96}}>::resolved.stem ==
              stem::large);

template <class T>
segment find(std::string_view name) {
  for (const segment& s : T::segments)
    if (s.name == name) return s;
  return {};
}
template <class T>
initializer initializer_of(std::string_view name) {
  for (std::size_t i = 0; i < T::segments.size(); ++i)
    if (T::segments[i].name == name) return T::initializers[i];
  return {};
}

template <class... Layers>
using small = network<sequential<Layers..., global_average_pool, linear<3>>, fp64, cpu, reference,
                      extent{2, 9, 7}, 3>;

}  // namespace

TEST_CASE("resnet: the parameters of ResNet-50 have torchvision's names in torchvision's order") {
  std::vector<std::string> expected{"conv1.weight", "bn1.weight", "bn1.bias"};
  const int blocks[] = {3, 4, 6, 3};
  for (int s = 0; s < 4; ++s)
    for (int b = 0; b < blocks[s]; ++b) {
      const std::string at = concat("layer", s + 1, ".", b, ".");
      for (const char* n : {"1", "2", "3"}) {
        expected.push_back(at + "conv" + n + ".weight");
        expected.push_back(at + "bn" + n + ".weight");
        expected.push_back(at + "bn" + n + ".bias");
      }
      if (b > 0) continue;
      for (const char* n : {"0.weight", "1.weight", "1.bias"})
        expected.push_back(at + "downsample." + n);
    }
  expected.insert(expected.end(), {"fc.weight", "fc.bias"});
  std::vector<std::string> names;
  for (const segment& s : table<50>::segments)
    if (s.kind != kind::statistic) names.emplace_back(s.name);
  CHECK(names == expected);
}

TEST_CASE(
    "resnet: the first block of a stage has a projection where the extent changes, others not") {
  CHECK(find<table<18>>("layer1.0.downsample.0.weight").size == 0);
  CHECK(find<table<18>>("layer1.0.conv2.weight").size == 64 * 64 * 9);
  CHECK(find<table<18>>("layer2.0.downsample.0.weight").size == 64 * 128);
  CHECK(find<table<18>>("layer2.1.downsample.0.weight").size == 0);
  CHECK(find<table<18>>("layer1.0.conv3.weight").size == 0);
  CHECK(find<table<50>>("layer1.0.downsample.0.weight").size == 64 * 256);
  CHECK(find<table<50>>("layer4.0.downsample.0.weight").size == 1024 * 2048);
  CHECK(find<table<152>>("layer3.35.bn3.running_var").size == 1024);
  CHECK(find<table<152>>("layer3.36.conv1.weight").size == 0);
}

TEST_CASE("resnet: torchvision's shapes, with either stem") {
  using dimensions = std::array<int, 6>;
  CHECK(find<table<50>>("conv1.weight").shape == dimensions{64, 3, 7, 7});
  CHECK(find<table<50>>("layer1.1.conv1.weight").shape == dimensions{64, 256, 1, 1});
  CHECK(find<table<50>>("layer2.0.conv2.weight").shape == dimensions{128, 128, 3, 3});
  CHECK(find<table<50>>("fc.weight").shape == dimensions{1000, 2048, 0, 0});
  CHECK(find<table<18, of_cifar>>("conv1.weight").shape == dimensions{64, 3, 3, 3});
  CHECK(find<table<18, of_cifar>>("fc.weight").shape == dimensions{10, 512, 0, 0});
}

TEST_CASE("resnet: initially convolutions are fan-out, a block's last scale alone is zero") {
  CHECK(initializer_of<table<50>>("conv1.weight").variance == 2.0 / (64 * 49));
  CHECK(initializer_of<table<50>>("layer3.1.conv3.weight").variance == 2.0 / 1024);
  const auto check = []<class T>(T, std::string_view last, double last_mean) {
    for (std::size_t i = 0; i < T::segments.size(); ++i) {
      const segment& s = T::segments[i];
      if (s.kind != kind::scale) continue;
      const bool is_last =
          s.name.starts_with("layer") && s.name.find(last) != std::string_view::npos;
      CHECK_MESSAGE(T::initializers[i].mean == (is_last ? last_mean : 1.0), s.name);
    }
  };
  check(table<50>{}, "bn3", 0);
  check(table<18>{}, "bn2", 0);
  check(table<50, resnet_options{.zero_gamma = false}>{}, "bn3", 1);
}

TEST_CASE("resnet: the gradient of stem, max pool and bottlenecks is the derivative of the loss") {
  // Every kind of block and shortcut of ResNet-50, fewer and narrower.
  using blocks = detail::nn::imagenet_blocks<detail::nn::imagenet_defaults({.zero_gamma = false})>;
  network_fixture<small<convolution<6, 7, 2>, blocks::norm_relu, max_pool<3, 2>,
                        blocks::equal_stage<true, 2, 1, 2>, blocks::equal_stage<true, 3, 2, 3>>>(4)
      .check_gradients(6);
  network_fixture<small<convolution<4, 3>, blocks::norm_relu, blocks::equal_stage<false, 4, 1, 2>,
                        blocks::equal_stage<false, 6, 2, 2>>>(4)
      .check_gradients(6);
  using ghost = detail::nn::imagenet_blocks<detail::nn::imagenet_defaults({.ghost_batch = 3})>;
  network_fixture<small<convolution<4, 3>, ghost::norm_relu, ghost::equal_stage<true, 2, 2, 2>>>(6)
      .check_gradients(6);
}

TEST_CASE("resnet: stem, max pool and bottlenecks with engine direct equal those with reference") {
  using blocks = detail::nn::imagenet_blocks<detail::nn::imagenet_defaults({.zero_gamma = false})>;
  const auto with = []<class Engine>(Engine*) {
    return network_fixture<
        network<sequential<convolution<6, 7, 2>, blocks::norm_relu, max_pool<3, 2>,
                           blocks::equal_stage<true, 2, 1, 2>, blocks::equal_stage<true, 3, 2, 3>,
                           global_average_pool, linear<3>>,
                fp64, cpu, Engine, extent{2, 33, 32}, 3>>(4);  // an odd height
  };
  auto expected = with(static_cast<reference*>(nullptr));
  auto actual = with(static_cast<direct*>(nullptr));
  check_same_step(actual, expected, 1e-11);
}

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("resnet: ResNet-18 and ResNet-50 with engine direct equal those with reference") {
  const auto check = []<int Depth>(std::integral_constant<int, Depth>) {
    CAPTURE(Depth);
    constexpr resnet_options s{
        .image = {3, 33, 32}, .classes = 5, .stem = stem::large};  // an odd height
    network_fixture<resnet<Depth, fp64, cpu, s, reference>> expected(2);
    network_fixture<resnet<Depth, fp64, cpu, s, direct>> actual(2, 1, 2);
    check_same_step(actual, expected, 1e-9);
  };
  check(std::integral_constant<int, 18>{});
  check(std::integral_constant<int, 50>{});
}
#endif
