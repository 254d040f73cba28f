// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/cordee.cuh>

#include "tests/train/replay_on.hpp"

using namespace support;

TEST_CASE("graph_cache on a GPU: after ten steps by tensor_core replay equals eager to the bit") {
  replays_alike<tensor_core>(gpu{});
}

#if defined(CORDEE_HAS_CUDNN)
TEST_CASE("graph_cache on a GPU: after ten steps by cudnn replay equals eager to the bit") {
  replays_alike<cudnn_with<cudnn_settings{.deterministic = true}>>(gpu{});
}
#endif
