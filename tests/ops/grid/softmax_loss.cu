// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/softmax_loss.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

TEST_CASE_TEMPLATE("softmax_loss on a GPU: the CPU's score and slopes, bad labels named", N,
                   cordee::half, bfloat, float) {
  if (!has_gpu()) return;
  loss_of_all_sizes<N>(bench_on{gpu{}});
  loss_of_batch<N>(bench_on{gpu{}}, 7, 259, 0.1);
  loss_of_odd_logits<N>(bench_on{gpu{}});
  for (const int bad : {-1, 3, 1 << 30}) loss_of_no_class<N>(bench_on{gpu{}}, bad);
}
