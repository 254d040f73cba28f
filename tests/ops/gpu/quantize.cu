// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/quantized_input.hpp"

using namespace support;

TEST_CASE(
    "quantize on a GPU: ranges, fake quantization, masks, filters and histograms equal the CPU's") {
  const device_fixture at{gpu{}};
  check_quantize_input(at);
  check_recall_input(at);
  check_fake_quantize_and_mask(at);
  check_filters(at);
  check_histogram(at);
}
