// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "examples/int8_table.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/synthetic.hpp>

TEST_CASE("int8_table: a network's first batch, which may be slow, is not timed") {
  const examples::test_images test(
      cordee::synthetic{.extent = {1, 28, 28}, .classes = 10, .samples = 600, .seed = 1});
  std::vector<std::size_t> batches;
  const auto r = examples::measured(
      "", 1, 0, test, [&](std::span<const std::uint8_t> pixels, int batch) -> std::vector<int> {
        if (batches.empty()) std::this_thread::sleep_for(std::chrono::seconds(2));
        batches.push_back(static_cast<std::size_t>(batch));
        return std::vector<int>(pixels.size() / test.size);
      });
  CHECK(batches == std::vector<std::size_t>{250, 250, 1});
  CHECK(r.predictions.size() == 600);
  CHECK(r.images_a_second > 600);  // 300 with the sleep
  CHECK(r.latency < 1e6 / 200);    // microseconds: of 200 images
}
