// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/wmma/bytes.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

static_assert(ByteEngine<wmma, emulated::stream>);

TEST_CASE(
    "wmma: bytes are convolved exactly, by every window, stride, padding, tail and zero point") {
  for (const convolution_problem& p : byte_shapes)
    for (const int zero : {0, 128, 255})
      check_bytes<wmma>(p, zero == 0 ? 5 : 1, zero,
                        bench_on{emulated{1 + static_cast<std::uint64_t>(zero)}});
}

TEST_CASE("wmma: gradients behind bytes are the definition's, of what quantisation left") {
  std::uint64_t seed = 1;
  for (const convolution_problem& p : byte_gradient_shapes)
    byte_gradients_are_the_definitions(bench_on{emulated{seed++}}, p, p.stride == 1 ? 2 : 1);
  byte_gradients_are_the_definitions(bench_on{emulated{}}, {{2, 3, 3}, 2, 1, 1, 0}, 0);
}

TEST_CASE("wmma: the largest sums of bytes do not saturate") {
  the_largest_sums_do_not_saturate(bench_on{emulated{}});
}
