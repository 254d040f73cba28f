// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/transports/nccl/resources.hpp>

using namespace cordee;

TEST_CASE("pinned_sizes: reserve grows page-locked memory") {
  detail::comm::pinned_sizes sizes;
  for (const std::size_t n : {1u, 64u, 65u, 1000u}) {
    sizes.reserve(n);
    sizes.data()[n - 1] = n;
    CHECK(nccl_double::pinned_memory::instance().has(sizes.data()));
  }
}

TEST_CASE("stream_set: two streams and usable events") {
  const detail::comm::stream_set streams;
  CHECK(streams.staging != streams.inspection);
  CHECK(cudaEventRecord(streams.completed, streams.staging) == cudaSuccess);
}

TEST_CASE("grow_only_memory: it is the same until more is needed, and is not a pool's") {
  const int mallocs = nccl_double::mallocs, pooled = nccl_double::pools::instance().allocations;
  detail::comm::grow_only_memory memory;
  CHECK(memory.reserve(0) == nullptr);
  std::byte* const first = memory.reserve(100);
  CHECK(memory.reserve(1 << 16) == first);
  CHECK(nccl_double::mallocs == mallocs + 1);
  std::byte* const more = memory.reserve((1 << 16) + 1);
  more[1 << 16] = std::byte{1};
  CHECK(memory.reserve(1 << 17) == more);
  CHECK(nccl_double::mallocs == mallocs + 2);
  CHECK(nccl_double::pools::instance().allocations == pooled);
}
