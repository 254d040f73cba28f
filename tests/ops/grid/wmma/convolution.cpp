// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/wmma/convolution.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

static_assert(ConvolutionEngine<wmma, half, float, emulated::stream> &&
              ConvolutionEngine<wmma, bfloat, float, emulated::stream> &&
              !ConvolutionEngine<wmma, float, float, emulated::stream>);

TEST_CASE("wmma: every pass of every shape is the definition, rounded once") {
  for (const convolution_problem& p : tensor_shapes)
    for (const std::uint64_t seed : {1u, 2u})
      wmma_is_the_definition<half>(bench_on{emulated{seed}}, p, seed == 1 ? 3 : 1);
}
TEST_CASE_TEMPLATE("wmma: every pass is the definition at the shapes of every engine", N, half,
                   bfloat) {
  for (const convolution_problem& p : many_shapes)
    if (p.in.pixels() <= 100) wmma_is_the_definition<N>(bench_on{emulated{5}}, p, 2);
}
TEST_CASE("wmma: a batch of samples is its samples one by one") {
  wmma_batch_is_its_samples<half>(bench_on{emulated{}}, {{16, 7, 7}, 40, 3, 1, 1}, 3);
}
TEST_CASE_TEMPLATE("wmma: any numbers' sums are as good as their rounding", N, half, bfloat) {
  for (const convolution_problem& p :
       {convolution_problem{{5, 6, 5}, 9, 3, 2, 1}, {{40, 5, 6}, 12, 3, 1, 1}}) {
    wmma_is_the_definition<N>(bench_on{emulated{3}}, p, 2);
    wmma_is_the_definition<N, nearly>(bench_on{emulated{4}}, p, 2);
  }
}
TEST_CASE("wmma: no samples leave no gradient") {
  wmma_is_the_definition<half>(bench_on{emulated{}}, {{5, 6, 7}, 9, 3, 2, 1}, 0);
}
