// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>

using namespace cordee;

namespace {

using dimensions = std::array<int, 4>;

template <int N, shape S = shape{}>
using table =
    parameter_table<typename detail::cifar_blocks<detail::cifar_shape(S)>::template layers<N>,
                    detail::cifar_shape(S).image>;

template <class T>
dimensions shape_of(const std::string& name) {
  for (const segment& one : T::segments)
    if (one.name == name) return one.shape;
  return {};
}

/// The extent behind a stage's first block.
template <int Channels>
constexpr extent narrowed(extent e) {
  return detail::cifar_blocks<detail::cifar_shape({})>::narrowing<Channels>::out(e);
}

}  // namespace

// What nobody said is the family's own.
static_assert(detail::cifar_shape({}).image == extent{3, 32, 32});
static_assert(detail::cifar_shape({}).classes == 10);
static_assert(detail::cifar_shape({}).shortcut == shortcut::a);
static_assert(detail::cifar_shape({}).stem == stem::small);
static_assert(detail::cifar_shape({.image = {1, 28, 28}}).image == extent{1, 28, 28});

static_assert(narrowed<32>({16, 32, 32}) == extent{32, 16, 16});
static_assert(narrowed<64>({32, 9, 8}) == extent{64, 5, 4}, "half, rounded up");

// Every norm is over the group that was said.
using grouped = detail::cifar_blocks<detail::cifar_shape({.group = 7})>;
static_assert(grouped::norm_relu::settings.group == 7 && grouped::last_norm::settings.group == 7);

// 6n + 1 convolutions and a classifier; two more for projections.
static_assert(table<1>::totals.convolutions == 7 && table<3>::totals.convolutions == 19);
static_assert(table<3, shape{.shortcut = shortcut::b}>::totals.convolutions == 21);

TEST_CASE("cifar: a 3x3 stem, three stages of n blocks with 16, 32 and 64 channels, a classifier") {
  const auto check = []<class T>(T, int n) {
    CHECK(shape_of<T>("conv1.weight") == dimensions{16, 3, 3, 3});
    for (int stage = 1; stage <= 3; ++stage) {
      const int channels = 8 << stage, before = stage == 1 ? 16 : channels / 2;
      for (int b = 0; b < n; ++b) {
        const std::string at = text("layer", stage, ".", b, ".conv");
        CAPTURE(at);
        CHECK(shape_of<T>(at + "1.weight") ==
              dimensions{channels, b == 0 ? before : channels, 3, 3});
        CHECK(shape_of<T>(at + "2.weight") == dimensions{channels, channels, 3, 3});
      }
      CHECK(shape_of<T>(text("layer", stage, ".", n, ".conv1.weight")) == dimensions{});
    }
    CHECK(shape_of<T>("fc.weight") == dimensions{10, 64, 0, 0});
  };
  check(table<1>{}, 1);
  check(table<3>{}, 3);
}

TEST_CASE("cifar: option B projects where a stage narrows, option A nowhere") {
  using b = table<2, shape{.shortcut = shortcut::b}>;
  CHECK(shape_of<b>("layer2.0.downsample.0.weight") == dimensions{32, 16, 1, 1});
  CHECK(shape_of<b>("layer3.0.downsample.0.weight") == dimensions{64, 32, 1, 1});
  CHECK(shape_of<b>("layer1.0.downsample.0.weight") == dimensions{});
  CHECK(shape_of<b>("layer2.1.downsample.0.weight") == dimensions{});
  CHECK(shape_of<table<2>>("layer2.0.downsample.0.weight") == dimensions{});
}

TEST_CASE("cifar: blocks begin as the identity unless they are told not to") {
  const auto check = []<class T>(T, double last) {
    for (std::size_t i = 0; i < T::segments.size(); ++i) {
      const segment& one = T::segments[i];
      if (one.what != kind::scale) continue;
      const bool is_last = one.name.find(".bn2.") != std::string_view::npos;
      CHECK_MESSAGE(T::beginnings[i].mean == (is_last ? last : 1.0), one.name);
    }
  };
  check(table<2>{}, 0);
  check(table<2, shape{.zero_gamma = false}>{}, 1);
}
