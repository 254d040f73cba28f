// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/nccl/stream_memory.hpp>

using namespace cordee;

TEST_CASE("pinned_sizes: reserve grows page-locked memory") {
  detail::comm::pinned_sizes sizes;
  for (const std::size_t n : {1u, 64u, 65u, 1000u}) {
    sizes.reserve(n);
    sizes.data()[n - 1] = n;
    CHECK(nccl_double::pinned_memory::instance().has(sizes.data()));
  }
}

TEST_CASE(
    "stream_memory: an empty one allocates nothing; stream_set: two streams and usable events") {
  const detail::comm::stream_set streams;
  const detail::comm::stream_memory empty(0, streams.staging), ten(10, streams.staging);
  CHECK(empty.data() == nullptr);
  CHECK(ten.data() != nullptr);
  CHECK(streams.staging != streams.inspection);
  CHECK(cudaEventRecord(streams.completed, streams.staging) == cudaSuccess);
}
