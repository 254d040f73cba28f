// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/infer/quantize/fit_batch_norm.hpp>

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::integer_range;

namespace {

constexpr integer_range all_of_18_bits{-norm_limit, norm_limit - 1};
constexpr int places = 34;  // k and b are integers in units of 2^-34, which doubles hold

/// The channels of a layer whose outputs are below 2^bits.
struct random_norm {
  std::vector<std::int64_t> exact_k, exact_b;
  std::vector<double> k, b;

  random_norm(int channels, int bits, std::uint64_t seed) {
    random_sequence draw(seed, purpose::test, 0, 0);
    const auto number = [&](int exponent) {
      return std::llrint(std::ldexp(2 * draw.uniform() - 1, exponent + places));
    };
    for (int c = 0; c < channels; ++c) {
      exact_k.push_back(number(bits - 18));
      exact_b.push_back(number(bits - 1));
      k.push_back(std::ldexp(static_cast<double>(exact_k.back()), -places));
      b.push_back(std::ldexp(static_cast<double>(exact_b.back()), -places));
    }
  }
  /// floor(k x + b + 1/2)
  [[nodiscard]] std::int64_t value(std::size_t c, std::int64_t x) const {
    return (exact_k[c] * x + exact_b[c] + (std::int64_t{1} << (places - 1))) >> places;
  }
};

}  // namespace

TEST_CASE("fit_batch_norm: every number of 18 bits, in bytes and in 32 bits, is exact") {
  for (const int bits : {8, 12, 23}) {
    const random_norm real(6, bits, 5);
    auto fitted = fit_batch_norm(real.k, real.b, all_of_18_bits);
    REQUIRE(fitted);
    fitted->low = -largest_bias;
    fitted->high = largest_bias;
    for (std::size_t c = 0; c < real.k.size(); ++c) {
      CAPTURE(bits);
      CAPTURE(c);
      std::size_t wrong = 0;
      for (int x = all_of_18_bits.low; x <= all_of_18_bits.high; ++x)
        wrong += fitted->output(c, std::int64_t{x}, std::int64_t{0}) != real.value(c, x) ? 1U : 0U;
      CHECK(wrong == 0);
      CHECK(std::abs(fitted->multiplier[c]) * norm_limit + std::abs(fitted->addend[c]) <=
            largest_norm_sum);
    }
  }
}

TEST_CASE("fit_batch_norm: no other addend of those that are exact ends in more zeros") {
  constexpr integer_range in{-300, 200};
  const random_norm real(8, 10, 3);
  const auto fitted = fit_batch_norm(real.k, real.b, in);
  REQUIRE(fitted);
  std::size_t of_several = 0;
  for (std::size_t c = 0; c < real.k.size(); ++c) {
    const auto is_exact = [&](std::int64_t addend) {
      for (int x = in.low; x <= in.high; ++x)
        if ((fitted->multiplier[c] * x + addend) >> fitted->shift != real.value(c, x)) return false;
      return true;
    };
    const auto zeros = [](std::int64_t b) {
      return std::countr_zero(static_cast<std::uint64_t>(b));
    };
    const std::int64_t chosen = fitted->addend[c];
    CHECK(is_exact(chosen));
    std::size_t others = 0;
    for (const int step : {-1, 1})
      for (std::int64_t b = chosen + step; is_exact(b); b += step, ++others)
        CHECK(zeros(b) < zeros(chosen));
    of_several += others > 1 ? 1 : 0;
  }
  CHECK(of_several > 4);
}

TEST_CASE("fit_batch_norm: the shift of all channels is the largest that one of them needs") {
  const std::vector<double> k{0.037, 1.0 / 3}, b{-1.25, 1.0 / 7};
  const auto both = fit_batch_norm(k, b, detail::ops::signed_bytes);
  REQUIRE(both);
  CHECK(both->shift == 9);
  CHECK(both->multiplier == std::vector<std::int64_t>{19, 170});
  CHECK(both->addend == std::vector<std::int64_t>{-384, 254});  // of -394 .. -384, 254 .. 255
}

TEST_CASE(
    "fit_batch_norm: channels of zeros have a form; what is not finite or too large has none") {
  const std::vector<double> zero{0, 0}, finite{1, 2};
  const auto fitted = fit_batch_norm(zero, std::vector{0.0, -7.5}, all_of_18_bits);
  REQUIRE(fitted);
  CHECK(fitted->output(0, std::int64_t{32767}, std::int64_t{3}) == 3);
  CHECK(fitted->output(1, std::int64_t{-32768}, std::int64_t{9}) == 2);
  CHECK_FALSE(fit_batch_norm(finite, std::vector{0.0, HUGE_VAL}, all_of_18_bits));
  CHECK_FALSE(fit_batch_norm(std::vector{std::nan(""), 0.0}, zero, all_of_18_bits));
  CHECK_FALSE(fit_batch_norm(std::vector{0x1p15, 0.0}, zero, all_of_18_bits));
  CHECK_THROWS_AS((void)fit_batch_norm(zero, zero, {-norm_limit - 1, 0}), usage_error);
}
