// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/loss.hpp"

using namespace support;

TEST_CASE_TEMPLATE(
    "loss on a GPU: metrics and gradients equal the CPU's, invalid labels are reported", N,
    cordee::half, bfloat, float) {
  check_all_sizes<N>(device_fixture{gpu{}});
  check_loss_of_batch<N>(device_fixture{gpu{}}, 7, 259, cordee::cross_entropy{0.1});
  check_other_losses<N>(device_fixture{gpu{}});
  check_extreme_logits<N>(device_fixture{gpu{}});
  for (const int invalid : {-1, 3, 1 << 30}) check_invalid_label<N>(device_fixture{gpu{}}, invalid);
}
