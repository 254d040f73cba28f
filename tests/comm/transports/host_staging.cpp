// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <doctest/doctest.h>

#include <cordee/comm/transports/host_staging.hpp>

#include "tests/support/emulated.hpp"

using cordee::detail::comm::host_staging, cordee::detail::comm::PinningStream;

namespace {

struct counted_stream {
  static inline int pinned = 0, pins = 0;
  static void* pin(std::size_t size) { return ++pinned, ++pins, std::malloc(size); }
  static void unpin(void* memory) noexcept {
    if (memory != nullptr) --pinned;
    std::free(memory);
  }
};
static_assert(PinningStream<counted_stream> && !PinningStream<support::emulated::stream>);

}  // namespace

TEST_CASE("host_staging: page-locked once for all transfers that are not longer") {
  {
    host_staging<counted_stream> staging;
    CHECK(staging.reserve(0) == nullptr);
    std::byte* const first = staging.reserve(1000);
    for (const std::size_t size : {1u, 1000u, 10u}) CHECK(staging.reserve(size) == first);
    CHECK(counted_stream::pins == 1);
    staging.reserve(1001)[1999] = std::byte{1};  // doubled
    CHECK(counted_stream::pins == 2);
    CHECK(counted_stream::pinned == 1);
  }
  CHECK(counted_stream::pinned == 0);
}

TEST_CASE("host_staging: pageable where a stream cannot page-lock") {
  host_staging<support::emulated::stream> staging;
  std::byte* const first = staging.reserve(1000);
  CHECK(staging.reserve(999) == first);
  CHECK(&host_staging<support::emulated::stream>::of_thread() ==
        &host_staging<support::emulated::stream>::of_thread());
}
