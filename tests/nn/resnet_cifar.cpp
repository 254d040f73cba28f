// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>

using namespace cordee;
using namespace cordee::detail::nn;

namespace {

using dimensions = std::array<int, 6>;

template <int N, resnet_options S = resnet_options{}>
using table = parameter_table<
    typename detail::nn::cifar_blocks<detail::nn::cifar_defaults(S)>::template layers<N>,
    detail::nn::cifar_defaults(S).image>;

template <class T>
dimensions shape_of(const std::string& name) {
  for (const segment& s : T::segments)
    if (s.name == name) return s.shape;
  return {};
}

/// The output extent of a stage's first block.
template <int Channels>
constexpr extent downsampled(extent e) {
  return detail::nn::cifar_blocks<detail::nn::cifar_defaults({})>::downsampling<Channels>::out(e);
}

}  // namespace

// Defaults of the family for options that are not set.
static_assert(detail::nn::cifar_defaults({}).image == extent{3, 32, 32});
static_assert(detail::nn::cifar_defaults({}).classes == 10);
static_assert(detail::nn::cifar_defaults({}).shortcut == shortcut::a);
static_assert(detail::nn::cifar_defaults({}).stem == stem::small);
static_assert(detail::nn::cifar_defaults({.image = {1, 28, 28}}).image == extent{1, 28, 28});

static_assert(downsampled<32>({16, 32, 32}) == extent{32, 16, 16});
static_assert(downsampled<64>({32, 9, 8}) == extent{64, 5, 4}, "half, rounded up");

// Every batch norm has the ghost batch of the options.
using ghost = detail::nn::cifar_blocks<detail::nn::cifar_defaults({.ghost_batch = 7})>;
static_assert(ghost::norm_relu::options.ghost_batch == 7 &&
              ghost::last_norm::options.ghost_batch == 7);

// 6n + 1 convolutions and a classifier; two more for projections.
static_assert(table<1>::totals.convolutions == 7 && table<3>::totals.convolutions == 19);
static_assert(table<3, resnet_options{.shortcut = shortcut::b}>::totals.convolutions == 21);

TEST_CASE("cifar: a 3x3 stem, three stages of n blocks with 16, 32 and 64 channels, a classifier") {
  const auto check = []<class T>(T, int n) {
    CHECK(shape_of<T>("conv1.weight") == dimensions{16, 3, 3, 3});
    for (int stage = 1; stage <= 3; ++stage) {
      const int channels = 8 << stage, before = stage == 1 ? 16 : channels / 2;
      for (int b = 0; b < n; ++b) {
        const std::string prefix = concat("layer", stage, ".", b, ".conv");
        CAPTURE(prefix);
        CHECK(shape_of<T>(prefix + "1.weight") ==
              dimensions{channels, b == 0 ? before : channels, 3, 3});
        CHECK(shape_of<T>(prefix + "2.weight") == dimensions{channels, channels, 3, 3});
      }
      CHECK(shape_of<T>(concat("layer", stage, ".", n, ".conv1.weight")) == dimensions{});
    }
    CHECK(shape_of<T>("fc.weight") == dimensions{10, 64, 0, 0});
  };
  check(table<1>{}, 1);
  check(table<3>{}, 3);
}

TEST_CASE("cifar: option B has a projection where a stage downsamples, option A none") {
  using b = table<2, resnet_options{.shortcut = shortcut::b}>;
  CHECK(shape_of<b>("layer2.0.downsample.0.weight") == dimensions{32, 16, 1, 1});
  CHECK(shape_of<b>("layer3.0.downsample.0.weight") == dimensions{64, 32, 1, 1});
  CHECK(shape_of<b>("layer1.0.downsample.0.weight") == dimensions{});
  CHECK(shape_of<b>("layer2.1.downsample.0.weight") == dimensions{});
  CHECK(shape_of<table<2>>("layer2.0.downsample.0.weight") == dimensions{});
}

TEST_CASE("cifar: blocks are the identity initially, unless zero_gamma is false") {
  const auto check = []<class T>(T, double last) {
    for (std::size_t i = 0; i < T::segments.size(); ++i) {
      const segment& s = T::segments[i];
      if (s.kind != kind::scale) continue;
      const bool is_last = s.name.find(".bn2.") != std::string_view::npos;
      CHECK_MESSAGE(T::initializers[i].mean == (is_last ? last : 1.0), s.name);
    }
  };
  check(table<2>{}, 0);
  check(table<2, resnet_options{.zero_gamma = false}>{}, 1);
}
