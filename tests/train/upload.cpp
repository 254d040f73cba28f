// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/upload.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

struct two {
  std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> labels{7, 8, 9};
  std::array<batch<cpu>, 2> micro{
      batch<cpu>{{pixels.data(), 4}, {labels.data(), 2}, 2, 9, 3},
      batch<cpu>{{pixels.data() + 4, 2}, {labels.data() + 2, 1}, 1, 9, 3}};
  two() {
    micro[0].norm.mean[0] = 0.5f;
    micro[1].loss_scale = 8;
  }
};

}  // namespace

TEST_CASE("upload: on the CPU batches are where they are") {
  const two host;
  CHECK(upload<cpu>(cpu(1)).to(host.micro, {}).data() == host.micro.data());
}

TEST_CASE("upload: elsewhere every micro-batch gets memory of its own, and the same words") {
  two host;
  const emulated device;
  upload<emulated> there(device);
  for (int round = 0; round < 2; ++round) {
    const auto found = there.to(host.micro, device.open());
    REQUIRE(found.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& a = host.micro[i];
      const auto& b = found[i];
      CHECK(b.pixels.data != a.pixels.data);
      CHECK(std::vector(b.pixels.data, b.pixels.data + b.pixels.size) ==
            std::vector(a.pixels.begin(), a.pixels.end()));
      CHECK(std::vector(b.labels.data, b.labels.data + b.labels.size) ==
            std::vector(a.labels.begin(), a.labels.end()));
      CHECK(b.count == a.count);
      CHECK(b.seed() == a.seed());
      CHECK(b.norm.mean == a.norm.mean);
    }
    CHECK(found[0].pixels.data != found[1].pixels.data);
    host.pixels[0] = 77;
  }
}
