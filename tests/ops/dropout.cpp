// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/dropout.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE("dropout_numbers: bits are those of the sequence of seed, step and sample") {
  const step_info info{.step = (1 << 24) + 7};  // steps count modulo 2^24
  const dropout_numbers numbers{.rate = 0.5, .seed = 9, .first_sample = 5, .info = &info};
  random_sequence expected(9, purpose::dropout, 7, 5 + 3);
  for (std::uint32_t i = 0; i < 11; ++i) CHECK(numbers.bits(3, 0, i) == expected.bits());
  CHECK(numbers.bits(3, 1, 0) != numbers.bits(3, 0, 0));
}

TEST_CASE_TEMPLATE("dropout_op: a GPU, emulated, drops what the CPU drops", N, half, double) {
  constexpr int numbers = 37;
  std::vector<N> x, y(std::size_t{9} * numbers);
  for (const double v : short_numbers<double>(y.size(), 1))
    x.push_back(
        cordee::detail::precision::rounded<N>(static_cast<cordee::detail::precision::wide<N>>(v)));
  const dropout_numbers random{.rate = 0.3, .seed = 2, .first_sample = 4};
  for_each(cpu::stream{}, x.size(),
           dropout_op<N>{random, 2, fast_divisor(numbers), x.data(), y.data()});
  const device_fixture at{emulated{1}};
  const auto in = at.put(x);
  auto out = at.put(std::vector<N>(x.size()));
  for_each(at.s, x.size(),
           dropout_op<N>{random, 2, fast_divisor(numbers), in.span().data, out.span().data});
  const auto found = at.get(out);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto a = static_cast<double>(cordee::detail::precision::widened(y[i])),
               b = static_cast<double>(cordee::detail::precision::widened(found[i]));
    CHECK(a == b);
    dropped += a == 0;
  }
  CHECK(dropped > y.size() / 5);
  CHECK(dropped < y.size() / 2);
}
