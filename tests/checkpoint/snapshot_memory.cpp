// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/checkpoint/snapshot_memory.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using cordee::detail::checkpoints::snapshot_memory;

namespace {

struct without_host_memory : support::emulated {
  without_host_memory() : emulated() {}
  [[noreturn]] void* pin(std::size_t) const { throw error("no page-locked memory"); }
};

}  // namespace

TEST_CASE("snapshot_memory: grows, and is kept for a smaller snapshot") {
  snapshot_memory memory;
  CHECK((memory.data() == nullptr && memory.size() == 0));
  const cpu device(2);
  memory.reserve(3'000'001, device, device.make_stream());
  std::byte* const first = memory.data();
  REQUIRE(first != nullptr);
  first[3'000'000] = std::byte{7};
  memory.reserve(1000, device, device.make_stream());
  CHECK((memory.data() == first && memory.size() == 3'000'001));
  CHECK(memory.data()[3'000'000] == std::byte{7});
  memory.reserve(3'000'002, device, device.make_stream());
  CHECK(memory.size() == 3'000'002);
  CHECK(memory.data()[3'000'000] == std::byte{0});  // written before a copy needs it
}

TEST_CASE(
    "snapshot_memory: page-locked for a GPU, and a refusal leaves none and names the remedy") {
  static_assert(detail::device::PinnedAllocator<support::emulated>);
  const without_host_memory device;
  snapshot_memory memory;
  memory.reserve(1000, support::emulated{}, {});
  CHECK(memory.size() == 1000);
  CHECK_THROWS_WITH_AS(memory.reserve(2000, device, {}),
                       "checkpoint: no memory for a copy of 2000 bytes, which would be written "
                       "beside training: use .async = false, which copies nothing",
                       error);
  CHECK((memory.data() == nullptr && memory.size() == 0));
}
