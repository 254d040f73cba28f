// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/train/step/gradient_ring.hpp>

using namespace cordee;
using detail::train::gradient_ring;

namespace {

constexpr std::array<bucket, 4> ring_buckets{bucket{0, 512, 128, {}, 0}, bucket{1, 192, 320, {}, 0},
                                             bucket{2, 64, 128, {}, 0}, bucket{3, 0, 64, {}, 0}};

}  // namespace

TEST_CASE("gradient_ring: neighbors do not overlap, the next but one is where a bucket was") {
  gradient_ring<float, cpu> ring(cpu(1), ring_buckets, sizeof(float));
  CHECK(ring.bytes() == 0);
  ring.allocate();
  CHECK(ring.bytes() == (320 + 128) * sizeof(float));
  for (std::size_t k = 0; k < 3; ++k) {
    CAPTURE(k);
    const auto one = ring.slot(k), next = ring.slot(k + 1);
    CHECK(one.size == ring_buckets[k].size);
    CHECK((one.data + one.size <= next.data || next.data + next.size <= one.data));
  }
  CHECK(ring.slot(2).data == ring.slot(0).data);
  CHECK(ring.slot(3).data + 64 == ring.slot(1).data + 320);
  CHECK(!ring.has_own(2));
}

TEST_CASE("gradient_ring: a bucket with memory of its own, and rounded numbers behind all others") {
  constexpr std::size_t width = sizeof(float) + sizeof(std::uint16_t);
  gradient_ring<float, cpu> ring(cpu(1), ring_buckets, width);
  ring.allocate();
  ring.allocate_own(2);
  CHECK(ring.has_own(2));
  CHECK(ring.bytes() == (320 + 128 + 128) * width);
  CHECK(ring.slot(2).data != ring.slot(0).data);
  CHECK(reinterpret_cast<std::byte*>(ring.rounded<std::uint16_t>(2)) ==
        reinterpret_cast<std::byte*>(ring.slot(2).data + 128));
  const auto* const reals = reinterpret_cast<const std::byte*>(ring.slot(0).data);
  const auto begin_of = [&](std::size_t k) {
    return reinterpret_cast<std::byte*>(ring.rounded<std::uint16_t>(k)) - reals;
  };
  CHECK(begin_of(0) == 448 * 4);
  CHECK(begin_of(1) == 448 * 4 + 128 * 2);
  CHECK(begin_of(3) == 448 * 4 + 384 * 2);
}
