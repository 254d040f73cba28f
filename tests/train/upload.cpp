// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/upload.hpp>

#include "tests/support/deferred.hpp"
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

TEST_CASE(
    "upload: kernels read what was theirs, however late they run and however early copies do") {
  constexpr std::size_t n = 300;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {  // 0: nothing runs before it must
    CAPTURE(seed);
    const deferred device(seed);
    const auto s = device.open();
    upload<deferred> there(device);
    std::array<std::vector<int>, 9> read;
    std::array<buffer<int, deferred>, 9> seen;
    for (std::size_t k = 0; k < read.size(); ++k) {
      seen[k] = buffer<int, deferred>(device, n);
      read[k].resize(n);
    }
    for (std::size_t k = 0; k < read.size(); ++k) {
      std::vector<std::uint8_t> pixels(n, static_cast<std::uint8_t>(k));
      std::vector<std::int32_t> labels(n, static_cast<std::int32_t>(100 * k));
      const std::array host{batch<cpu>{{pixels.data(), n}, {labels.data(), n}, 1, 1, 1}};
      const auto b = there.to(host, s).front();
      std::fill(pixels.begin(), pixels.end(), std::uint8_t{77});  // the loader goes on
      for_each(s, n, [b, to = seen[k].span().data](std::size_t i) {
        to[i] = b.pixels.data[i] + b.labels.data[i];
      });
    }
    for (std::size_t k = 0; k < read.size(); ++k) {
      device.copy(read[k].data(), seen[k].span().data, n * sizeof(int), s);
      CHECK(read[k] == std::vector<int>(n, 101 * static_cast<int>(k)));
    }
  }
}

TEST_CASE(
    "upload: while kernels read one batch the next is on its way, and the host does not wait") {
  const two host;
  const deferred device;
  const auto s = device.open();
  upload<deferred> there(device);
  (void)there.to(host.micro, s);
  (void)there.to(host.micro, s);  // rooms are made
  s.finish();
  for_each(s, 1, [](std::size_t) {});
  (void)there.to(host.micro, s);
  CHECK(device.left() > 0);  // the kernel, and the copies behind it
  s.finish();
}
