// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/quantize.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

TEST_CASE("quantize on a GPU, emulated: fake quantization, masks and filters equal the CPU's") {
  for (const std::uint64_t seed : {1u, 2u}) {
    const device_fixture at{emulated{seed}};
    check_recall_input(at);
    check_fake_quantize_and_mask(at);
    check_filters(at);
  }
}
