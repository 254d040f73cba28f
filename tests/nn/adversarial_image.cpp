// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/adversarial_image.hpp>

using namespace cordee;
using namespace cordee::detail;

TEST_CASE("adversarial_image: the golden step of a logistic loss, both ways") {
  // loss log(1 + exp(-w x)) of class 1, w = (1, -2), x = (0.3, 0.1), epsilon 0.05
  constexpr std::array w{1.0, -2.0}, x{0.3, 0.1}, up{0.25, 0.15}, down{0.35, 0.05},
      slopes{-0.4750208125, 0.9500416250};
  const double slope = -1 / (1 + std::exp(w[0] * x[0] + w[1] * x[1]));
  for (std::size_t i = 0; i < 2; ++i) {
    const double gradient = slope * w[i];
    CHECK(std::abs(gradient - slopes[i]) < 1e-10);
    CHECK(std::abs(nn::attack_step(x[i], gradient, x[i], 0.05, -0.05) - up[i]) < 1e-15);
    CHECK(std::abs(nn::attack_step(x[i], gradient, x[i], 0.05, 0.05) - down[i]) < 1e-15);
  }
  CHECK(nn::attack_step(0.3, 0.0, 0.3, 0.05, 0.05) == 0.3);     // sign(0) = 0
  CHECK(nn::attack_step(0.34, -1.0, 0.3, 0.05, 0.05) == 0.35);  // within epsilon of the image
}

TEST_CASE("adversarial_image: bytes follow the signs of a blocked gradient, within 0 .. 255") {
  constexpr extent image{3, 1, 2};
  constexpr std::array<std::uint8_t, 12> x{100, 100, 3, 254, 50, 60, 100, 100, 3, 254, 50, 60};
  // (2, 1, 2, 3): channels of a pixel side by side
  constexpr std::array<float, 12> g{1, 1, 0, -1, -1, 2, -1, -1, 0, 1, 1, -2};
  std::array<std::uint8_t, 12> perturbed = x;
  nn::attack_bytes<3>(image, 2, g.data(), x.data(), 9, 9, perturbed.data());
  constexpr std::array<std::uint8_t, 12> expected{91,  109, 0,  255, 50, 51,
                                                  109, 91,  12, 245, 50, 69};
  CHECK(perturbed == expected);
}

TEST_CASE(
    "adversarial_image: noise is whole numbers within epsilon, functions of step and sample") {
  constexpr extent image{1, 8, 8};
  constexpr int count = 64, epsilon = 4;
  const std::vector<std::uint8_t> x(count * 64, 128);
  std::vector<std::uint8_t> noisy(x.size()), again(x.size());
  nn::add_uniform_noise(image, count, x.data(), epsilon, 7, 3, 0, noisy.data());
  std::array<int, 9> seen{};
  for (const std::uint8_t v : noisy) {
    REQUIRE(std::abs(v - 128) <= epsilon);
    ++seen[static_cast<std::size_t>(v - 124)];
  }
  // 4096 numbers: binomial, mean 455, deviation 20; six of them
  for (const int n : seen) CHECK(std::abs(n - 4096 / 9.0) < 6 * 20.2);
  nn::add_uniform_noise(image, count - 5, x.data(), epsilon, 7, 3, 5, again.data());
  CHECK(std::equal(noisy.begin() + 5 * 64, noisy.end(), again.begin()));
  nn::add_uniform_noise(image, count, x.data(), epsilon, 7, 4, 0, again.data());
  CHECK(again != noisy);
}

TEST_CASE("adversarial_image: classes are wrong ones, all alike") {
  std::vector<std::int32_t> labels(3000), wrong(3000);
  for (std::size_t n = 0; n < labels.size(); ++n) labels[n] = static_cast<std::int32_t>(n % 4);
  labels[0] = -1;
  nn::draw_target_classes(4, labels, 1, 2, 0, wrong.data());
  CHECK(wrong[0] == -1);
  std::array<int, 4> shifts{};
  for (std::size_t n = 1; n < labels.size(); ++n) {
    REQUIRE((wrong[n] >= 0 && wrong[n] < 4));
    ++shifts[static_cast<std::size_t>((wrong[n] - labels[n] + 4) % 4)];
  }
  CHECK(shifts[0] == 0);
  for (std::size_t k = 1; k < 4; ++k) CHECK(std::abs(shifts[k] - 1000) < 6 * 26);  // deviation 25.8
}
