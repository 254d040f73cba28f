// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/data/loader.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/data/synthetic.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {

constexpr double ulp = 0x1p-52;  // unit in the last place of 1

// Two channels: 10 times the example's index, and 9.
struct two_channels {
  extent image() const { return {2, 1, 3}; }
  int classes() const { return 1; }
  std::size_t size() const { return 5; }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    for (std::size_t k = 0; k < 6; ++k) pixels[k] = static_cast<std::uint8_t>(k < 3 ? 10 * i : 9);
    return 0;
  }
};

}  // namespace

TEST_CASE("normalize: measured numbers give every channel mean 0 and deviation 1") {
  const synthetic data{.extent = {3, 5, 5}, .samples = 40};
  const normalization n = normalize::measured(data);
  std::array<double, 3> sum{}, square{};
  std::vector<std::uint8_t> pixels(75);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data.read(i, pixels);
    for (std::size_t k = 0; k < 75; ++k) {
      const double x = (pixels[k] / 255.0 - n.mean[k / 25]) * n.scale[k / 25];
      sum[k / 25] += x;
      square[k / 25] += x * x;
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    // Mean and scale are floats: relative errors of 2^-24, of numbers of at most 4.
    CHECK(std::abs(sum[c] / 1000) < 4 * std::ldexp(1.0, -24));
    CHECK(std::abs(square[c] / 1000 - 1) < 4 * std::ldexp(1.0, -24));
  }
}

TEST_CASE("normalize: mean and deviation are those of the pixels, in units of the range 0 .. 1") {
  const normalize n = normalize::measured(two_channels{});
  CHECK(n.mean[0] == relative(20.0 / 255, ulp));
  CHECK(n.deviation[0] == relative(std::sqrt(200.0) / 255, 2 * ulp));
  CHECK(n.mean[1] == relative(9.0 / 255, ulp));
  CHECK(n.deviation[1] == 1);  // constant
}

TEST_CASE("normalize: the scale is 1 / deviation, and 1 by default") {
  const normalization n = normalize{.mean = {0.25, 0.5}, .deviation = {0.5, 0.25}};
  CHECK(n.mean[0] == 0.25f);
  CHECK(n.scale[0] == 2);
  CHECK(n.scale[1] == 4);
  CHECK(n.scale[2] == 1);
  const normalization none = normalize{};
  CHECK(none.mean[0] == 0);
  CHECK(none.scale[0] == 1);
  CHECK_THROWS_AS(static_cast<void>(normalization(normalize{.deviation = {-1}})), usage_error);
  CHECK_THROWS_AS(static_cast<void>(normalize::measured(synthetic{.samples = 0})), usage_error);
}

TEST_CASE("normalize: NaN, infinity, negative and forgotten deviations are refused by a sentence") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto refusal = [](const normalize& n) {
    return support::message_of<usage_error>([&] { static_cast<void>(normalization(n)); });
  };
  const auto has = [&](const normalize& n, const char* part) {
    return support::contains_all(refusal(n), {"normalize: ", part});
  };
  for (const double mean : {nan, infinity, -infinity, 1e300}) {
    CHECK(has({.mean = {mean}}, "a mean is NaN or infinite"));
    CHECK(has({.mean = {0, 0, 0, mean}}, "a mean is NaN or infinite"));
  }
  for (const double deviation : {nan, infinity, -1.0})
    CHECK(has({.deviation = {1, deviation}}, "a deviation is negative, NaN or infinite"));
  CHECK(has({.deviation = {1e-300}}, "1 / deviation is infinite"));
  CHECK(has({.deviation = {0.2, 0, 0.2}}, "a channel's deviation is 0"));
  CHECK(refusal({.deviation = {0.2, 0.2, 0.2}}).empty());
}

TEST_CASE("normalize: a loader refuses deviations of some of its channels only") {
  const auto refusal = [](int channels, const normalize& n) {
    return support::message_of<usage_error>([&] {
      loader feed{synthetic{.extent = {channels, 4, 4}, .samples = 8},
                  support::rank_stub{},
                  {.global_batch = 4},
                  pad_crop_flip{},
                  n};
    });
  };
  const normalize two{.deviation = {0.2, 0.2}};
  CHECK(support::contains_all(refusal(3, two), {"a deviation of 0", "each channel"}));
  for (const int channels : {1, 2}) CHECK(refusal(channels, two).empty());
  CHECK(refusal(3, {.mean = {0.5, 0.5, 0.5}}).empty());
}

TEST_CASE("normalize: the published constants cover their channels") {
  for (const normalize& n : {normalize::imagenet(), normalize::cifar10(), normalize::cifar100()})
    CHECK_NOTHROW(n.expect_covers(3));
  for (const normalize& n : {normalize::mnist(), normalize::fashion_mnist()})
    CHECK_NOTHROW(n.expect_covers(1));
  const normalization n = normalize::imagenet();
  // White, of torchvision's Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)).
  CHECK((1 - n.mean[0]) * n.scale[0] == doctest::Approx(2.2489083).epsilon(1e-6));
  CHECK((1 - n.mean[2]) * n.scale[2] == doctest::Approx(2.64).epsilon(1e-6));
}
