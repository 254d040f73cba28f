// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/quantize.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

// Beyond 26 million numbers there are more blocks, not longer ones.
static_assert(cordee::detail::ops::histogram_kernel::chunk_of(26'000'000) == 65536);
static_assert(cordee::detail::ops::histogram_kernel::chunk_of(100'000'000) == 65536);

TEST_CASE("histogram on a GPU, emulated: counts equal the CPU's") {
  for (const std::uint64_t seed : {1u, 2u}) check_histogram(device_fixture{emulated{seed}});
}
