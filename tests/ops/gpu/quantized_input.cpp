// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/quantized_input.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE("quantized_input, emulated: bytes, ranges and scalings equal the CPU's") {
  for (const std::uint64_t seed : {1u, 2u}) check_quantize_input(device_fixture{emulated{seed}});
}
