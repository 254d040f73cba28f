// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/engines/tensor_core/engine.hpp"

#include "tests/support/emulated.hpp"
#include "tests/support/number_types.hpp"

using namespace support;

static_assert(ConvolutionEngine<tensor_core, half, float, emulated::stream> &&
              ConvolutionEngine<tensor_core, bfloat, float, emulated::stream> &&
              !ConvolutionEngine<tensor_core, float, float, emulated::stream>);

TEST_CASE("tensor_core: every pass of every shape equals the definition, rounded once") {
  for (const convolution_problem& p : tensor_shapes)
    for (const std::uint64_t seed : {1u, 2u})
      tensor_core_is_the_definition<half>(device_fixture{emulated{seed}}, p, seed == 1 ? 3 : 1);
}
TEST_CASE_TEMPLATE(
    "tensor_core: every pass equals the definition at the shapes that every engine is tested with",
    N, EMULATED_HALVES) {
  for (const convolution_problem& p : many_shapes)
    if (p.in.pixels() <= 100) tensor_core_is_the_definition<N>(device_fixture{emulated{5}}, p, 2);
}
TEST_CASE("tensor_core: a batch has the bits of its samples computed one by one") {
  tensor_core_batch_is_its_samples<half>(device_fixture{emulated{}}, {{16, 7, 7}, 40, 3, 1, 1}, 3);
}
TEST_CASE_TEMPLATE("tensor_core: the error of any numbers' sums is that of rounding them", N,
                   EMULATED_HALVES) {
  for (const convolution_problem& p :
       {convolution_problem{{5, 6, 5}, 9, 3, 2, 1}, {{40, 5, 6}, 12, 3, 1, 1}}) {
    tensor_core_is_the_definition<N>(device_fixture{emulated{3}}, p, 2);
    tensor_core_is_the_definition<N, nearly>(device_fixture{emulated{4}}, p, 2);
  }
}
TEST_CASE("tensor_core: zero samples give a zero weight gradient") {
  tensor_core_is_the_definition<half>(device_fixture{emulated{}}, {{5, 6, 7}, 9, 3, 2, 1}, 0);
}
