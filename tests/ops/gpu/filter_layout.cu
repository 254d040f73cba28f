// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/gpu/filter_layout.hpp"

using namespace support;

TEST_CASE_TEMPLATE("filter_layout on a GPU: numbers are rounded to the nearest and lie as defined",
                   N, cordee::half, bfloat, float) {
  conversion_is_rounding<N, float>(device_fixture{gpu{}});
  packing_is_its_definition<N, float>(device_fixture{gpu{}});
}
