// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/infer/integer_network_on.hpp"

using namespace support;

TEST_CASE("integer_network_on a GPU: the CPU's logits to the bit, replayed too") {
  const device_fixture at{gpu{}};
  small_networks_have_the_cpus_logits(at);
  large_networks_have_the_cpus_logits(at);
  a_captured_call_has_the_cpus_logits(at);
}
