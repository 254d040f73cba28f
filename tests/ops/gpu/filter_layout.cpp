// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gpu/filter_layout.hpp"

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

using namespace support;

TEST_CASE_TEMPLATE("filter_layout: convert rounds to the nearest", N, half, bfloat, float) {
  conversion_is_rounding<N, float>(device_fixture{emulated{1}});
  conversion_is_rounding<N, double>(device_fixture{emulated{2}});
}

TEST_CASE_TEMPLATE("filter_layout: packed weights lie as defined, and gradients are unpacked", N,
                   half, bfloat, float) {
  packing_is_its_definition<N, float>(device_fixture{emulated{1}});
  packing_is_its_definition<N, double>(device_fixture{emulated{2}});
}

TEST_CASE("filter_layout: fewer padded channels or filters than the layer's are a usage error") {
  const convolution_problem p{{9, 4, 4}, 3, 3, 1, 1};
  const float* const none = nullptr;
  float* const out = nullptr;
  const emulated::stream s{};
  CHECK(
      contains(error_message([&] { pack_krsc(p, 8, 8, none, out, s); }), "fewer padded channels"));
  CHECK(contains(error_message([&] { unpack_krsc(p, 16, 2, none, out, write_mode::add, s); }),
                 "fewer padded channels"));
}
