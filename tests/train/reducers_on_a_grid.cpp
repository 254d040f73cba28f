// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers between ranks on one GPU, which is emulated.
#include <doctest/doctest.h>

#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>

#include "tests/support/emulated.hpp"
#include "tests/train/reducers_on.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("on a grid every exact reducer leaves the same bits on all ranks, and the CPU's mean") {
  trains_alike(emulated(1), [](threads link) { return ring{link}; });
  trains_alike(emulated(2), [](threads link) { return tree{link}; });
  trains_alike(emulated(3), [](threads link) { return butterfly{link}; });
  trains_alike(emulated(4), [](threads link) { return halving{link}; });
  trains_alike(emulated(5), [](threads link) { return native{link}; });
}

TEST_CASE("on a grid decentlam mixes with its neighbours as on the CPU") {
  mixes_alike(emulated(1), [](threads link) { return gossip{link}; });
}
