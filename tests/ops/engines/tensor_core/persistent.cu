// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/ops/engines/tensor_core/persistent.hpp"

using namespace support;

TEST_CASE_TEMPLATE("tensor_core on a GPU: persistent blocks have the bits of one block per tile", N,
                   cordee::half, bfloat) {
  const device_fixture at{gpu{}};
  for (const persistent_case& of : persistent_cases) {
    for (const std::size_t blocks : {1U, 2U, 3U})
      persistent_has_the_bits_of_a_block_per_tile<N>(at, of, [&](const auto&) { return blocks; });
    persistent_has_the_bits_of_a_block_per_tile<N>(at, of, [](const auto& kernel) {
      const std::size_t resident = cordee::detail::device::resident_cuda_blocks(kernel);
      CHECK(resident >= static_cast<std::size_t>(kernel.resident_blocks));
      return resident;
    });
  }
}
