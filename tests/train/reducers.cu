// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks that share a GPU.
#include <doctest/doctest.h>

#include <cordee/cordee.cuh>

#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("GPU: every exact reducer gives all ranks the same bits, and the CPU's mean") {
  trains_alike(gpu{}, [](threads comm) { return ring{comm}; });
  trains_alike(gpu{}, [](threads comm) { return tree{comm}; });
  trains_alike(gpu{}, [](threads comm) { return butterfly{comm}; });
  trains_alike(gpu{}, [](threads comm) { return halving_doubling{comm}; });
  trains_alike(gpu{}, [](threads comm) { return native{comm}; });
}

TEST_CASE("GPU: sharded updates, and masters, give all ranks the same bits, and the CPU's mean") {
  trains_alike(gpu{}, [](threads comm) { return sharded{ring{comm}}; });
  trains_alike(gpu{}, [](threads comm) { return sharded{two_shot{comm}, true}; });
}

TEST_CASE("GPU: power_sgd leaves all ranks with the same bits, near the CPU's") {
  low_rank_alike(gpu{});
}

TEST_CASE("GPU: decentlam mixes with its neighbours as on the CPU") {
  mixes_alike(gpu{}, [](threads comm) { return gossip{comm}; });
}

TEST_CASE("GPU: a step with a NaN is skipped as on the CPU, before the host knows of it") {
  skip_alike(gpu{});
}
