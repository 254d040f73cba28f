// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/batch_check.hpp>

using namespace cordee;

TEST_CASE("check_batch: pixels, labels and weights of each sample, and the update's samples") {
  std::array<std::uint8_t, 8> pixels{};
  std::array<std::int32_t, 2> labels{};
  std::array<float, 2> weights{};
  const batch<cpu> good{{pixels.data(), 8}, {labels.data(), 2}, 2, 2};
  const auto refuses = [](batch<cpu> b, phase p) {
    try {
      detail::nn::check_batch(b, 4, p);
    } catch (const usage_error&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(refuses(good, phase::train));
  batch<cpu> b = good;
  b.count = 3;
  CHECK(refuses(b, phase::train));
  b = good;
  b.pixels.size = 7;
  CHECK(refuses(b, phase::train));
  b = good;
  b.labels.size = 1;
  CHECK(refuses(b, phase::evaluate));
  b = good;
  b.label_weights = {weights.data(), 2};
  CHECK(refuses(b, phase::train));
  b.other_labels = {labels.data(), 2};
  CHECK_FALSE(refuses(b, phase::train));
  b.other_labels.size = b.label_weights.size = 1;
  CHECK(refuses(b, phase::train));
  b = good;
  b.global_samples = 1;
  CHECK(refuses(b, phase::train));
  CHECK_FALSE(refuses(b, phase::evaluate));
}
