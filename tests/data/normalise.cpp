// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/data/normalise.hpp>
#include <cordee/data/synthetic.hpp>

using namespace cordee;

namespace {

// Two channels: the first is the example's number times 10, the second always 9.
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

TEST_CASE("normalise: what was measured brings every channel to mean 0 and deviation 1") {
  const synthetic data{.extent = {3, 5, 5}, .samples = 40};
  const normalisation n = normalise::measured(data);
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
    CHECK(std::abs(sum[c] / 1000) < 1e-5);
    CHECK(std::abs(square[c] / 1000 - 1) < 1e-5);
  }
}

TEST_CASE("normalise: mean and deviation are those of the pixels, in units of the whole range") {
  const normalise n = normalise::measured(two_channels{});
  CHECK(n.mean[0] == doctest::Approx(20.0 / 255));
  CHECK(n.deviation[0] == doctest::Approx(std::sqrt(200.0) / 255));
  CHECK(n.mean[1] == doctest::Approx(9.0 / 255));
  CHECK(n.deviation[1] == 1);  // the same everywhere: nothing to divide by
}

TEST_CASE("normalise: the scale is one over the deviation, and 1 where none is named") {
  const normalisation n = normalise{.mean = {0.25, 0.5}, .deviation = {0.5, 0.25}};
  CHECK(n.mean[0] == 0.25f);
  CHECK(n.scale[0] == 2);
  CHECK(n.scale[1] == 4);
  CHECK(n.scale[2] == 1);
  const normalisation none = normalise{};
  CHECK(none.mean[0] == 0);
  CHECK(none.scale[0] == 1);
  CHECK_THROWS_AS(static_cast<void>(normalisation(normalise{.deviation = {-1}})), misuse);
  CHECK_THROWS_AS(static_cast<void>(normalise::measured(synthetic{.samples = 0})), misuse);
}
