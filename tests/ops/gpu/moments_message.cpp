// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of moments_message: the statistics that its sums give are those of all values, to the
// bound in its header.
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/gpu/moments_message.hpp>

#include "tests/support/device_vectors.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

using doubles = std::vector<double>;
struct statistics {
  std::size_t count = 0;
  long double mean = 0, variance = 0;  // biased
};

/// In two passes, with eleven bits more than fp64 has.
statistics two_pass(const std::vector<doubles>& parts) {
  statistics of;
  for (const doubles& x : parts) {
    of.count += x.size();
    for (const double one : x) of.mean += one;
  }
  if (of.count == 0) return {};
  const auto n = static_cast<long double>(of.count);
  of.mean /= n;
  for (const doubles& x : parts)
    for (const double one : x) of.variance += (one - of.mean) * (one - of.mean);
  of.variance /= n;
  return of;
}

/// The mean and the variance from the message of these ranks' values, of one channel of three.
std::pair<double, double> by_message(const std::vector<doubles>& ranks) {
  constexpr std::size_t channels = 3;
  doubles sums(2 * channels + 1, 0.0);
  for (const doubles& x : ranks) {
    doubles part(sums.size() + 1, 7.0);
    const moments_message<float> message{channels, part.data()};
    REQUIRE(message.size() == sums.size());
    const statistics own = two_pass({x});
    const auto n = static_cast<double>(own.count);
    for (std::size_t c = 0; c < channels; ++c)  // the others, of which nothing leaks
      message.write(c, n,
                    c == 1 ? channel_pair{static_cast<double>(own.mean),
                                          static_cast<double>(own.variance) * n}
                           : channel_pair{1e30, 1e60});
    CHECK(part.back() == 7);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
  }
  const moments_message<float> message{channels, sums.data()};
  return {message.mean(1), message.variance(1)};
}

/// Of (about) this mean and variance 1, in fp32, on ranks of different numbers of values; one of
/// several ranks has none.
std::vector<doubles> values_of_ranks(std::size_t ranks, double mean, double spread) {
  std::vector<doubles> parts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (ranks > 1 && r == ranks / 2) continue;
    parts[r] = normal_numbers(77 + 31 * r, r + 1);
    for (double& x : parts[r]) x = static_cast<float>(mean + spread * x);
  }
  return parts;
}

constexpr double u = 0x1p-53;
constexpr std::size_t numbers_of_ranks[] = {1, 2, 3, 5, 8};

}  // namespace

TEST_CASE("moments_message: mean and variance of all values, to the bound of their cancellation") {
  for (const std::size_t ranks : numbers_of_ranks)
    for (const double ratio : {0.0, 1.0, 1e2, 1e4, 1e6}) {
      CAPTURE(ranks);
      CAPTURE(ratio);
      for (const double sign : {1.0, -1.0}) {
        const auto parts = values_of_ranks(ranks, sign * ratio, 1);
        const statistics want = two_pass(parts);
        const auto [mean, variance] = by_message(parts);
        const double v = static_cast<double>(want.variance),
                     square = static_cast<double>(want.mean * want.mean) + v,
                     root = std::sqrt(square);
        const auto r = static_cast<double>(ranks);
        // The rank's own mean, one rounding to fp64, moves v by 2 u sqrt(v square); its deviations,
        // a rounding and a product, by 2 u v.
        CHECK(std::abs(static_cast<double>(mean - want.mean)) <= (r + 2) * u * root);
        CHECK(std::abs(static_cast<double>(variance - want.variance)) <=
              (3 * r + 7) * u * square + 2 * u * std::sqrt(v) * root + 2 * u * v);
      }
    }
}

TEST_CASE("moments_message: the variance of a constant channel is zero to rounding, not negative") {
  const doubles drawn = normal_numbers(40, 9);
  for (const std::size_t ranks : numbers_of_ranks)
    for (const double scale : {1e-3, 1.0, 1e4, 1e30})
      for (const double one : drawn) {
        const auto constant = static_cast<double>(static_cast<float>(scale * one));
        const auto [mean, variance] = by_message(values_of_ranks(ranks, constant, 0));
        const auto r = static_cast<double>(ranks);
        CHECK(std::abs(mean - constant) <= (r + 1) * u * std::abs(constant));
        CHECK(variance >= 0);
        CHECK(variance <= (3 * r + 7) * u * constant * constant);
      }
}

TEST_CASE("moments_message: NaN and infinity of one rank are NaN of mean or variance, not zero") {
  for (const double nonfinite : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    auto parts = values_of_ranks(3, 1, 1);
    parts[2][5] = nonfinite;
    const auto [mean, variance] = by_message(parts);
    CHECK_FALSE(std::isfinite(mean));
    CHECK(std::isnan(variance));
  }
}

TEST_CASE("moments_message: an fp64 network's has no squares, and ends with the count") {
  doubles numbers(5, 7.0);
  const moments_message<double> message{3, numbers.data()};
  CHECK(message.size() == 4);
  for (std::size_t c = 0; c < 3; ++c) message.write(c, 6, {0.5 + static_cast<double>(c), 9});
  CHECK(numbers == doubles{3, 9, 15, 6, 7});
  CHECK(message.mean(2) == 2.5);
  CHECK(message.count() == 6);
}
