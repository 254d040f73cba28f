// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/train/input/upload.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

struct two_batches {
  std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> labels{7, 8, 9}, other_labels{5, 6};
  std::vector<float> weights{0.25F, 1};
  std::array<batch<cpu>, 2> micro{
      batch<cpu>{{pixels.data(), 4}, {labels.data(), 2}, 2, 9, 3},
      batch<cpu>{{pixels.data() + 4, 2}, {labels.data() + 2, 1}, 1, 9, 3}};
  two_batches() {
    micro[0].normalization.mean[0] = 0.5f;
    micro[1].loss_scale = 8;
    micro[0].other_labels = {other_labels.data(), 2};  // samples of the first one were mixed
    micro[0].label_weights = {weights.data(), 2};
  }
};

}  // namespace

TEST_CASE("upload: on the CPU it returns its argument") {
  const two_batches host;
  CHECK(upload<cpu>(cpu(1)).to(host.micro, {}).data() == host.micro.data());
}

TEST_CASE("upload: every micro-batch has its own device memory, and equal contents") {
  two_batches host;
  const emulated device;
  upload<emulated> uploaded(device);
  for (int round = 0; round < 2; ++round) {
    const auto batches = uploaded.to(host.micro, device.make_stream());
    REQUIRE(batches.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& a = host.micro[i];
      const auto& b = batches[i];
      CHECK(b.pixels.data != a.pixels.data);
      CHECK(std::vector(b.pixels.data, b.pixels.data + b.pixels.size) ==
            std::vector(a.pixels.begin(), a.pixels.end()));
      CHECK(std::vector(b.labels.data, b.labels.data + b.labels.size) ==
            std::vector(a.labels.begin(), a.labels.end()));
      CHECK((b.other_labels.data == nullptr) == a.other_labels.empty());
      CHECK((b.label_weights.data == nullptr) == a.label_weights.empty());
      CHECK(std::vector(b.other_labels.data, b.other_labels.data + b.other_labels.size) ==
            std::vector(a.other_labels.begin(), a.other_labels.end()));
      CHECK(std::vector(b.label_weights.data, b.label_weights.data + b.label_weights.size) ==
            std::vector(a.label_weights.begin(), a.label_weights.end()));
      CHECK(b.count == a.count);
      CHECK(b.loss_weight() == a.loss_weight());
      CHECK(b.normalization.mean == a.normalization.mean);
    }
    CHECK(batches[0].pixels.data != batches[1].pixels.data);
    host.pixels[0] = 77;
  }
}

TEST_CASE(
    "upload: kernels read their own batch, however late they run and however early copies do") {
  constexpr std::size_t n = 300;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {  // 0: nothing runs before it must
    CAPTURE(seed);
    const deferred device(seed);
    const auto s = device.make_stream();
    upload<deferred> uploaded(device);
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
      const auto b = uploaded.to(host, s).front();
      std::fill(pixels.begin(), pixels.end(), std::uint8_t{77});  // the loader reuses its memory
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

TEST_CASE("upload: the next batch is copied while kernels read one, and the host does not wait") {
  const two_batches host;
  const deferred device;
  const auto s = device.make_stream();
  upload<deferred> uploaded(device);
  (void)uploaded.to(host.micro, s);
  (void)uploaded.to(host.micro, s);  // both buffers are allocated
  s.finish();
  for_each(s, 1, [](std::size_t) {});
  (void)uploaded.to(host.micro, s);
  CHECK(device.left() > 0);  // the kernel, and the copies behind it
  s.finish();
}

TEST_CASE("upload: the seconds of each update's copies, which it knows when they are complete") {
  const two_batches host;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const deferred device(seed);
    const auto s = device.make_stream();
    upload<deferred> uploaded(device);
    const bool at_once = seed % 2 != 0;  // else after each update
    double seconds = 0;
    for (int k = 0; k < 5; ++k) {
      // Pixels and labels of two micro-batches, and the other labels and weights of one.
      if (!at_once) CHECK(seconds == 6 * std::max(0, k - 2));
      (void)uploaded.to(host.micro, s);
      for_each(s, 1, [](std::size_t) {});
      if (!at_once) seconds += uploaded.take_seconds();
    }
    if (at_once) seconds = uploaded.take_seconds();
    CHECK(seconds == 6 * 3);
    CHECK(uploaded.take_seconds() == 0);
  }
  const emulated untimed;
  upload<emulated> uploaded(untimed);
  for (int k = 0; k < 3; ++k) (void)uploaded.to(host.micro, untimed.make_stream());
  CHECK(uploaded.take_seconds() == 0);
}
