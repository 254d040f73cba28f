// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/convolution_reference.hpp>

#include "tests/support/byte_engines.hpp"

using namespace cordee;
using namespace support;

static_assert(ByteEngine<reference> && ByteEngine<direct> && !ByteEngine<cpu>);

TEST_CASE_TEMPLATE("bytes: every engine has the definition's sums, to the bit", E, reference,
                   direct) {
  for (const convolution_problem& p : many_shapes)
    for (const int samples : {1, 3}) check_bytes<E>(p, samples, samples == 1 ? 128 : 3);
}

TEST_CASE_TEMPLATE("bytes: the padding is the zero point, whichever it is", E, reference, direct) {
  for (const int zero : {0, 1, 127, 254, 255}) {
    check_bytes<E>({{16, 5, 4}, 16, 3, 1, 1}, 2, zero);
    check_bytes<E>({{3, 6, 5}, 17, 5, 2, 2}, 2, zero);
  }
  // An image of zero points is an image of zeros: nothing comes out, at the edge as inside.
  const convolution_problem p{{16, 4, 4}, 16, 3, 1, 1};
  byte_harness<E> engine{p, 1, {1, 1, 200, unsigned_bytes}};
  const std::vector<double> x(p.in.size(), 200);
  const std::vector<std::int8_t> w(p.weights(), 127);
  CHECK(engine.template run<std::uint8_t, std::int32_t>(x, w, {}) ==
        std::vector<double>(p.out().size()));
}

TEST_CASE_TEMPLATE("bytes: the largest sums of a layer fit 32 bits, and more terms are refused", E,
                   reference, direct) {
  const convolution_problem p{{2048, 1, 1}, 16, 5, 1, 2};  // 51,200 terms, of which one pixel's
  byte_harness<E> engine{p, 1, {1, 1, 0, unsigned_bytes}};
  const std::vector<double> x(p.in.size(), 255);
  const std::vector<std::int8_t> w(p.weights(), -127);
  CHECK(engine.template run<std::uint8_t, std::int32_t>(x, w, {})[3] == -255.0 * 127 * 2048);
  const convolution_problem large{{2048, 1, 1}, 1, 7, 1, 3};
  byte_harness<E> refused{large, 1, {1, 1, 0, unsigned_bytes}};
  const std::vector<std::int8_t> many(large.weights(), 1);
  CHECK_THROWS_AS((refused.template run<std::uint8_t, std::int32_t>(x, many, {})), misuse);
}

TEST_CASE_TEMPLATE("bytes: a zero point that is no byte is refused", E, reference, direct) {
  const convolution_problem p{{5, 3, 3}, 5, 3, 1, 1};
  const std::vector<double> x(p.in.size(), 1.0);
  for (const int zero : {-1, 256}) {
    byte_harness<E> engine{p, 1, {1, 1, zero, unsigned_bytes}};
    CHECK_THROWS_AS((engine.template run<std::uint8_t, std::int32_t>(
                        x, std::vector<std::int8_t>(p.weights()), {})),
                    misuse);
  }
}

TEST_CASE_TEMPLATE("bytes: a scale that is no number makes every result so, filling stays zero", E,
                   reference, direct) {
  const convolution_problem p{{5, 3, 3}, 5, 3, 1, 1};
  byte_harness<E> engine{p, 1, fit_affine(0.0f, std::numeric_limits<float>::infinity(), {})};
  for (const double y : engine.template run<float, float>(std::vector<double>(p.in.size(), 1.0),
                                                          std::vector<std::int8_t>(p.weights(), 1),
                                                          std::vector<float>(5, 1.0f)))
    CHECK(std::isnan(y));
  CHECK(engine.filled == 0);
}
