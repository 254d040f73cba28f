// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/device/cuda.cuh>

#include "tests/support/batch_norm_on_device.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE_TEMPLATE("batch_norm on a GPU: forward, backward and evaluation equal the CPU's", N,
                   fp16::storage, bf16::storage, float) {
  check_batch_norm<N, epilogue::store>(gpu{});
  check_batch_norm<N, epilogue::relu>(gpu{});
  check_batch_norm<N, epilogue::add_relu>(gpu{});
}
