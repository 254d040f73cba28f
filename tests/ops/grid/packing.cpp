// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/grid/packing.hpp"

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace support;

TEST_CASE_TEMPLATE("packing: what is converted is rounded to the nearest", N, half, bfloat, float) {
  conversion_is_rounding<N, float>(bench_on{emulated{1}});
  conversion_is_rounding<N, double>(bench_on{emulated{2}});
}

TEST_CASE_TEMPLATE("packing: filters for NHWC lie as defined, and gradients come back", N, half,
                   bfloat, float) {
  packing_is_its_definition<N, float>(bench_on{emulated{1}});
  packing_is_its_definition<N, double>(bench_on{emulated{2}});
}

TEST_CASE("packing: padding that is less than what it pads is refused") {
  const convolution_problem p{{9, 4, 4}, 3, 3, 1, 1};
  const float* const none = nullptr;
  float* const out = nullptr;
  const emulated::stream s{};
  CHECK(contains(complaint([&] { pack_krsc(p, 8, 8, none, out, s); }), "padding does not take"));
  CHECK(contains(complaint([&] { unpack_krsc(p, 16, 2, none, out, into::add, s); }),
                 "padding does not take"));
}
