// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

static_assert(ByteEngine<reference> && ByteEngine<direct> && !ByteEngine<cpu>);

TEST_CASE_TEMPLATE(
    "byte convolution: every engine computes the sums of the definition, bit for bit", E, reference,
    direct) {
  for (const convolution_problem& p : many_shapes)
    for (const int samples : {1, 3}) check_bytes<E>(p, samples, samples == 1 ? 128 : 3);
}

TEST_CASE_TEMPLATE("byte convolution: padding is the zero point", E, reference, direct) {
  for (const int zero : {0, 1, 127, 254, 255}) {
    check_bytes<E>({{16, 5, 4}, 16, 3, 1, 1}, 2, zero);
    check_bytes<E>({{3, 6, 5}, 17, 5, 2, 2}, 2, zero);
  }
  // An image of zero points is an image of zeros: the output is zero, at the edges too.
  const convolution_problem p{{16, 4, 4}, 16, 3, 1, 1};
  byte_harness<E> engine{p, 1, {1, 1, 200, unsigned_bytes}};
  const std::vector<double> x(p.in.size(), 200);
  const std::vector<std::int8_t> w(p.weights(), 127);
  CHECK(engine.template run<std::uint8_t, std::int32_t>(x, w, {}) ==
        std::vector<double>(p.out().size()));
}

TEST_CASE_TEMPLATE(
    "byte convolution: the largest sums of 51,200 terms fit 32 bits, more terms than 66,000 throw",
    E, reference, direct) {
  const convolution_problem p{{2048, 1, 1}, 16, 5, 1, 2};  // 51,200 terms, most of them padding
  byte_harness<E> engine{p, 1, {1, 1, 0, unsigned_bytes}};
  const std::vector<double> x(p.in.size(), 255);
  const std::vector<std::int8_t> w(p.weights(), -127);
  CHECK(engine.template run<std::uint8_t, std::int32_t>(x, w, {})[3] == -255.0 * 127 * 2048);
  const convolution_problem too_large{{2048, 1, 1}, 1, 7, 1, 3};
  byte_harness<E> throwing{too_large, 1, {1, 1, 0, unsigned_bytes}};
  const std::vector<std::int8_t> ones(too_large.weights(), 1);
  CHECK_THROWS_AS((throwing.template run<std::uint8_t, std::int32_t>(x, ones, {})), usage_error);
}

TEST_CASE_TEMPLATE("byte convolution: a zero point outside 0 .. 255 throws", E, reference, direct) {
  const convolution_problem p{{5, 3, 3}, 5, 3, 1, 1};
  const std::vector<double> x(p.in.size(), 1.0);
  for (const int zero : {-1, 256}) {
    byte_harness<E> engine{p, 1, {1, 1, zero, unsigned_bytes}};
    CHECK_THROWS_AS((engine.template run<std::uint8_t, std::int32_t>(
                        x, std::vector<std::int8_t>(p.weights()), {})),
                    usage_error);
  }
}

TEST_CASE_TEMPLATE(
    "byte convolution: a NaN scale makes every result NaN, padding channels stay zero", E,
    reference, direct) {
  const convolution_problem p{{5, 3, 3}, 5, 3, 1, 1};
  byte_harness<E> engine{p, 1, fit_affine(0.0f, std::numeric_limits<float>::infinity(), {})};
  for (const double y : engine.template run<float, float>(std::vector<double>(p.in.size(), 1.0),
                                                          std::vector<std::int8_t>(p.weights(), 1),
                                                          std::vector<float>(5, 1.0f)))
    CHECK(std::isnan(y));
  CHECK(engine.padding == 0);
}
