// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/gpu/requantize_epilogue.hpp>

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;

namespace {

/// Four filters of the most terms, with the largest weights and the factors and biases at the ends
/// of what a file may have.
integer_convolution extreme_layer() {
  integer_convolution c;
  c.problem = {{static_cast<int>(most_terms), 1, 1}, 4, 1, 1, 0};
  c.zero_point = 255;
  c.bias_shift = 0;
  for (const int w : {127, -127, 1, 0})
    c.weights.insert(c.weights.end(), most_terms, std::int8_t(w));
  c.bias = {largest_bias, -largest_bias, 1, -3};
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  c.factors = {{1 << 30, 0}, {most, 0}, {most, -31}, {1 << 30, 31}};
  c.residual_factor = {most, -7};
  return c;
}

/// What filters 0 .. 3 make of these sums of w q.
template <class Out>
std::vector<Out> epilogue_of(const integer_convolution& c, const std::int32_t (&sums)[4],
                             const std::int32_t* residual) {
  const auto filters = rescalings_of(c, 16);
  alignas(16) Out y[8] = {};
  const requantize_epilogue<Out> epilogue{filters.data(), output_form::of(c, residual), y};
  epilogue.store(4, epilogue.constants_of(0), sums);
  return {y + 4, y + 8};
}

template <class Out>
void check_epilogue(const integer_convolution& c, const std::int32_t* residual) {
  const auto terms = static_cast<std::int32_t>(most_terms);
  for (const std::int32_t q : {0, 1, 100, 254, 255}) {
    const std::int32_t sums[4] = {127 * q * terms, -127 * q * terms, q * terms, 0};
    std::vector<Out> defined;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int64_t weights = std::int64_t{c.weights[k * c.weights.size() / 4]} * terms,
                         sum = std::int64_t{sums[k]} - c.zero_point * weights,
                         added = residual == nullptr
                                     ? 0
                                     : cordee::detail::ops::rescaled(std::int64_t{residual[4 + k]},
                                                                     c.residual_factor);
      defined.push_back(static_cast<Out>(c.output(k, sum, added)));
    }
    CHECK(epilogue_of<Out>(c, sums, residual) == defined);
  }
}

}  // namespace

TEST_CASE("requantize_epilogue: the output of the definition, at the ends of all ranges") {
  integer_convolution c = extreme_layer();
  alignas(16) const std::int32_t residual[8] = {0, 0, 0, 0, wide_limit, -wide_limit, 1, -1000};
  for (const std::int32_t* added : {static_cast<const std::int32_t*>(nullptr), &residual[0]}) {
    for (const int offset : {0, 7, 255}) {
      c.offset = offset;
      c.low = 0;
      c.high = 255;
      check_epilogue<std::uint8_t>(c, added);
      c.low = -wide_limit;
      c.high = wide_limit;
      check_epilogue<std::int32_t>(c, added);
    }
  }
}

TEST_CASE("requantize_epilogue: small sums and factors, every rounding") {
  integer_convolution c = extreme_layer();
  c.problem.in.channels = 1;
  c.zero_point = 3;
  c.weights = {1, -1, 5, 0};
  c.bias = {1, -1, 0, 77};
  c.bias_shift = 3;
  c.factors = {{1 << 30, 0}, {1 << 30, -1}, {1431655765, 0}, {1 << 30, 1}};
  c.low = -wide_limit;
  c.high = wide_limit;
  for (std::int32_t q = 0; q < 256; ++q) {
    const std::int32_t sums[4] = {q, -q, 5 * q, 0};
    std::vector<std::int32_t> defined;
    for (std::size_t k = 0; k < 4; ++k)
      defined.push_back(static_cast<std::int32_t>(
          c.output(k, std::int64_t{sums[k]} - 3 * c.weights[k], std::int64_t{0})));
    CHECK(epilogue_of<std::int32_t>(c, sums, nullptr) == defined);
  }
}

TEST_CASE("requantize_epilogue: filters that pad a row have sums of zero") {
  const auto filters = rescalings_of(extreme_layer(), 16);
  REQUIRE(filters.size() == 16);
  for (std::size_t k = 4; k < 16; ++k) CHECK(filters[k](0) == 0);
}
