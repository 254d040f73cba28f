// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/device/cuda.cuh>

#include "tests/infer/integer_network_on.hpp"

using namespace support;

TEST_CASE("integer_network_on a GPU: small networks have the CPU's logits to the bit") {
  small_networks_have_the_cpus_logits(device_fixture{gpu{}});
}

TEST_CASE("integer networks on a GPU: large ones have the CPU's logits, and replayed calls") {
  const device_fixture at{gpu{}};
  large_networks_have_the_cpus_logits(at);
  a_captured_call_has_the_cpus_logits(at);
}
