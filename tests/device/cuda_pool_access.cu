// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Over the counting double of the CUDA runtime: no GPU is needed.
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/device/cuda.cuh>

#include "tests/support/cuda_on_host.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("cuda_pool_access: ranks as threads open their GPU's pool to the others' GPUs") {
  using opened = std::pair<int, std::vector<int>>;
  std::mutex mutex;
  std::set<opened> pools;
  threads::launch(3, [&](threads) {
    host_cuda_counts().gpus = 8;
    const gpu device;
    const std::scoped_lock lock(mutex);
    pools.insert(opened(device.ordinal(), host_cuda_counts().pool_peers));
  });
  CHECK(pools == std::set<opened>{{0, {1, 2}}, {1, {0, 2}}, {2, {0, 1}}});
  host_cuda_counts().pool_peers.clear();
  const gpu alone;
  CHECK(host_cuda_counts().pool_peers.empty());
}

TEST_CASE("cuda_pool_access: the GPUs that a process sees are listed by PCI bus id") {
  host_cuda_counts().gpus = 2;
  REQUIRE((detail::device::list_visible_gpus != nullptr));
  CHECK(detail::device::list_visible_gpus() == "0000:00:00.0 0000:01:00.0 ");
  host_cuda_counts().gpus = 1;
}
