// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/nccl/rooms.hpp>

using namespace cordee;

TEST_CASE("pinned_sizes: as many as are wanted, of memory that copies need not wait for") {
  detail::pinned_sizes sizes;
  for (const std::size_t n : {1u, 64u, 65u, 1000u}) {
    sizes.reserve(n);
    sizes.data()[n - 1] = n;
    CHECK(nccl_double::pinned_memory::all().has(sizes.data()));
  }
}

TEST_CASE("cuda_room: none is no memory; a lane's streams and events are made and ended") {
  const detail::cuda_handles all;
  const detail::cuda_room none(0, all.own), some(10, all.own);
  CHECK(none.data() == nullptr);
  CHECK(some.data() != nullptr);
  CHECK(all.own != all.aside);
  CHECK(cudaEventRecord(all.done, all.own) == cudaSuccess);
}
