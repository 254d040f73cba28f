// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/libtorch/tensor_device.hpp>

#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("tensor_device: a module on another device is refused with the remedy") {
  using cordee::detail::libtorch::expect_place;
  const torch::Device gpu0(torch::kCUDA, 0), gpu1(torch::kCUDA, 1);
  expect_place("w", gpu1, gpu1);
  check_contains(error_message([&] { expect_place("w", gpu0, torch::kCPU); }),
                 "\"w\" is on device cuda:0, the model's is cpu: call to(torch::Device(\"cpu\")) "
                 "before the model is made, or train on the GPU: torch_model<Data, fp32, gpu>");
  check_contains(error_message([&] { expect_place("w", gpu0, gpu1); }),
                 "the model's is cuda:1: call to(torch::Device(\"cuda:1\"))");
  if (!torch::cuda::is_available())
    check_contains(error_message([&] { expect_place("w", torch::kCPU, gpu0); }),
                   "this LibTorch finds no GPU: take PyTorch's CUDA build");
}
