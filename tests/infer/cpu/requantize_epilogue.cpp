// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/cpu/requantize_epilogue.hpp>

#include "tests/infer/blocked.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using support::drawn;

namespace {

constexpr int V = detail::ops::lanes<float>;
constexpr std::size_t lanes = V, pixels = 5;  // four together, and one

std::vector<fixed_point> random_factors(int exponent) {
  random_sequence draw(1, purpose::test, 0, 0);
  std::vector<fixed_point> factors;
  for (std::size_t v = 0; v < lanes; ++v)
    factors.push_back(fixed_point::from_real(std::ldexp(1 + draw.uniform(), exponent)));
  return factors;
}

/// From registers, or four pixels from memory.
template <class Epilogue, class Out>
void finish(const Epilogue& epilogue, const std::vector<std::int32_t>& sums, bool from_memory,
            Out* y) {
  const auto block = epilogue.of_block(0, y);
  const auto sum = [&](std::size_t p) {
    return detail::ops::load<std::int32_t, V>(sums.data() + p * lanes);
  };
  if (from_memory)
    block.finish_four(0, sums.data());
  else
    block(0, sum(0), sum(1), sum(2), sum(3));
  block(4 * lanes, sum(4));
}

template <shortcut_kind Kind>
void check_stream(fixed_point residual_factor, int exponent, bool from_memory) {
  const auto factors = random_factors(exponent);
  const auto sums = drawn<std::int32_t>(pixels * lanes, 20, 4),
             residual = drawn<std::int32_t>(pixels * lanes, 24, 5);
  const fixed_point to_byte{1 << 30, -13};
  const rescaling<V> rescale(factors);
  const wide_rescaling<V> of_residual(residual_factor), to_copy(to_byte, 37);
  constexpr std::int32_t low = -(1 << 20), high = 1 << 23;
  std::vector<std::int32_t> y(residual);  // in place
  std::vector<std::uint8_t> copy(y.size());
  const stream_epilogue<V, Kind> epilogue{&rescale,
                                          &of_residual,
                                          &to_copy,
                                          y.data(),
                                          y.data(),
                                          copy.data(),
                                          lanes32<V>{} + low,
                                          lanes32<V>{} + high,
                                          rescale.shifts_before()};
  CHECK(rescale.shifts_before() == (exponent >= -1));
  finish(epilogue, sums, from_memory, y.data());
  std::size_t wrong = 0, wrong_copies = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    std::int64_t wanted = detail::ops::rescaled(std::int64_t{sums[i]}, factors[i % lanes]);
    if (Kind != shortcut_kind::none)
      wanted += detail::ops::rescaled(std::int64_t{residual[i]}, residual_factor);
    wanted = std::clamp<std::int64_t>(wanted, low, high);
    wrong += y[i] != wanted ? 1U : 0U;
    const auto byte = std::clamp<std::int64_t>(detail::ops::rescaled(wanted, to_byte) + 37, 0, 255);
    wrong_copies += copy[i] != byte ? 1U : 0U;
  }
  CHECK(wrong == 0);
  CHECK(wrong_copies == 0);
}

}  // namespace

TEST_CASE("byte_epilogue: each byte is the rescaled sum within its limits") {
  const auto factors = random_factors(-11);
  const auto sums = drawn<std::int32_t>(pixels * lanes, 20, 4);
  std::vector<std::int64_t> addends;
  for (const fixed_point f : factors) addends.push_back(std::int64_t{21} << (31 - f.shift));
  const rescaling<V> rescale(factors, addends);
  using bytes = detail::ops::vec<std::uint8_t, 4 * V>;
  const byte_epilogue<V> epilogue{&rescale, bytes{} + 3, bytes{} + 250, rescale.shifts_before()};
  for (const bool from_memory : {false, true}) {
    std::vector<std::uint8_t> y(sums.size());
    finish(epilogue, sums, from_memory, y.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i)
      wrong += y[i] !=
               std::clamp<std::int64_t>(
                   detail::ops::rescaled(std::int64_t{sums[i]}, factors[i % lanes]) + 21, 3, 250);
    CHECK(wrong == 0);
  }
}

TEST_CASE("stream_epilogue: each number is the rescaled sum and the shortcut, with its byte") {
  for (const int exponent : {5, -1, -2})
    for (const bool from_memory : {false, true}) {
      check_stream<shortcut_kind::none>({}, exponent, from_memory);
      check_stream<shortcut_kind::shifted>({1 << 30, 1}, exponent, from_memory);
      check_stream<shortcut_kind::shifted>({1 << 30, -2}, exponent, from_memory);
      check_stream<shortcut_kind::rescaled>(fixed_point::from_real(0.7), exponent, from_memory);
    }
}
