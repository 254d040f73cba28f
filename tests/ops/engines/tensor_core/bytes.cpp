// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/engines/tensor_core/bytes.hpp"

#include "tests/support/emulated.hpp"

using namespace cordee::detail::ops;
using namespace support;

static_assert(ByteEngine<tensor_core, emulated::stream>);

TEST_CASE(
    "tensor_core: byte convolutions are exact for every window, stride, padding, tail and zero "
    "point") {
  for (const convolution_problem& p : byte_shapes)
    for (const int zero : {0, 128, 255})
      check_bytes<tensor_core>(p, zero == 0 ? 5 : 1, zero,
                               device_fixture{emulated{1 + static_cast<std::uint64_t>(zero)}});
}

TEST_CASE("tensor_core: gradients of a byte convolution are those of the dequantized numbers") {
  std::uint64_t seed = 1;
  for (const convolution_problem& p : byte_gradient_shapes)
    byte_gradients_are_the_definitions(device_fixture{emulated{seed++}}, p, p.stride == 1 ? 2 : 1);
  byte_gradients_are_the_definitions(device_fixture{emulated{}}, {{2, 3, 3}, 2, 1, 1, 0}, 0);
  // 1,152 pixels: the weight gradient is the sum of two splits.
  byte_gradients_are_the_definitions(device_fixture{emulated{9}}, {{3, 24, 24}, 4, 1, 1, 0}, 2);
}

TEST_CASE("tensor_core: the largest sums of bytes do not saturate") {
  the_largest_sums_do_not_saturate(device_fixture{emulated{}});
}
