// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/convolution_reference.hpp"

#include "tests/support/emulated.hpp"

using namespace support;

static_assert(ConvolutionEngine<reference, half, float, emulated::stream> &&
              ConvolutionEngine<reference, double, double, emulated::stream> &&
              !ConvolutionEngine<reference, half, half, emulated::stream>);

TEST_CASE_TEMPLATE("reference on grids: three sums, exact, rounded once", N, half, bfloat, float) {
  for (const std::uint64_t seed : {1u, 2u})
    reference_is_the_definition<N, float>(bench_on{emulated{seed}});
}
TEST_CASE("reference on grids: doubles are summed in double") {
  reference_is_the_definition<double, double>(bench_on{emulated{3}});
}
