// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks that share a GPU: compiled here, run where there is one.
#include <doctest/doctest.h>

#include <cordee/cuda.cuh>

#include "tests/support/has_gpu.cuh"
#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("on a GPU every exact reducer leaves the same bits on all ranks, and the CPU's mean") {
  if (!has_gpu()) return;
  trains_alike(gpu{}, [](threads link) { return ring{link}; });
  trains_alike(gpu{}, [](threads link) { return tree{link}; });
  trains_alike(gpu{}, [](threads link) { return butterfly{link}; });
  trains_alike(gpu{}, [](threads link) { return halving{link}; });
  trains_alike(gpu{}, [](threads link) { return native{link}; });
}

TEST_CASE("on a GPU decentlam mixes with its neighbours as on the CPU") {
  if (!has_gpu()) return;
  mixes_alike(gpu{}, [](threads link) { return gossip{link}; });
}

TEST_CASE("a step that is not finite is skipped on a GPU as on the CPU, known to the host or not") {
  if (!has_gpu()) return;
  skip_alike(gpu{});
}
