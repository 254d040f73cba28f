// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Statistics shared by ranks.
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/batch_norm.hpp>

#include "tests/support/batch_norm_fixture.hpp"
#include "tests/support/empty_ranks.hpp"
#include "tests/support/rank_sum.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

constexpr double rounding = 0x1p-53;
// Of the golden values, which are below 10: half a unit of the last digit written, and less than
// 1e-14 of rounding.
constexpr double eleven_digits = 5e-12 + 1e-14;
// Statistics of six numbers: a sum, a division, squares, two products; well conditioned.
constexpr double some_roundings = 24 * rounding;

/// Forward and backward of both ranks, with an allreduce of every sum.
std::array<std::vector<double>, 2> run_ranks(std::array<one_channel*, 2> ranks,
                                             std::array<std::vector<double>, 2> dy, rank_sum& m) {
  std::array<std::vector<double>, 2> dx;
  m.on_each_rank([&](rank_sum::participant& self) {
    one_channel& own = *ranks[self.rank];
    own.allreduce = {rank_sum::sum, &self};
    own.forward();
    dx[self.rank] = own.backward(dy[self.rank]);
  });
  return dx;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= eleven_digits);
}

template <class Real, int V>
void check_empty_ranks_in(const extent& at, bool moving_average) {
  const auto channels = static_cast<std::size_t>(at.channels);
  const auto doubles = [](const std::vector<Real>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  check_empty_ranks(
      {std::vector(channels, 2.0), std::vector(channels, 3.0)},
      [&](std::size_t seed, int samples, rank_sum::participant& seat) {
        batch_norm_fixture<Real, V, epilogue::store> bn({at, 0, moving_average}, samples, seed + 1);
        bn.mean.assign(channels, 2);
        bn.variance.assign(channels, 3);
        bn.dgamma.assign(channels, 5);
        bn.allreduce = {rank_sum::sum, &seat};
        bn.forward();
        std::vector<Real> dy(bn.x.size(), Real{1});
        bn.backward(dy);
        if (samples == 0) CHECK(bn.dgamma == std::vector<Real>(channels, 0));
        return running_statistics{doubles(bn.mean), doubles(bn.variance)};
      });
}

}  // namespace

TEST_CASE("batch_norm: golden values of two ranks that share statistics") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  rank_sum m(2);
  const auto dx = run_ranks({&first, &second}, {{{.1, -.2, .3}, {.5, -.1, .2}}}, m);
  check_close(first.y, {-1.18872866174, -0.494364330868, 0.894364330868});
  check_close(second.y, {-1.8830929926, 1.58872866174, 2.2830929926});
  check_close(dx[0], {-0.0628233544355, -0.251293715326, 0.135566326848});
  check_close(dx[1], {0.195083439542, -0.122340467129, 0.105807770501});
  // This rank's sums: the reducer adds them. Three terms, the largest 0.5.
  CHECK(std::abs(first.dbeta[0] - .2) <= 4 * rounding);
  CHECK(std::abs(second.dbeta[0] - .6) <= 4 * rounding);
  CHECK(std::abs(first.dgamma[0] + second.dgamma[0] + 0.37032764313) <= eleven_digits);
  for (const one_channel* r : {&first, &second}) {
    CHECK(r->mean[0] == relative(0.1 * 3, some_roundings));
    CHECK(r->variance[0] == relative(0.9 + 0.1 * 5.6, some_roundings));
  }
}

TEST_CASE("batch_norm: golden statistics of ranks that do not share") {
  one_channel first = golden({1, 2, 4}), second = golden({0, 5, 6});
  first.forward();
  second.forward();
  CHECK(first.mean[0] == relative(0.1 * 7 / 3, some_roundings));
  CHECK(second.mean[0] == relative(0.1 * 11 / 3, some_roundings));
  CHECK(first.variance[0] == relative(0.9 + 0.1 * 14 / 9 * 1.5, some_roundings));
  CHECK(second.variance[0] == relative(0.9 + 0.1 * 62 / 9 * 1.5, some_roundings));
}

TEST_CASE("batch_norm: a rank without samples takes part in every allreduce and adds nothing") {
  one_channel serial = golden({1, 2, 4}), shared = golden({1, 2, 4}), empty = golden({});
  std::vector<double> dy{.1, -.2, .3};
  serial.forward();
  const auto dx = serial.backward(dy);
  rank_sum m(2);
  empty.dgamma = empty.dbeta = {5};
  const auto both = run_ranks({&shared, &empty}, {{{.1, -.2, .3}, {}}}, m);
  CHECK(m.calls[0] == m.calls[1]);
  check_close(serial.y, shared.y);
  check_close(dx, both[0]);
  CHECK(empty.mean == shared.mean);
  CHECK(empty.variance == shared.variance);
  CHECK(empty.dgamma[0] == 0);  // overwritten by an empty sum
  CHECK(empty.dbeta[0] == 0);
}

TEST_CASE("batch_norm: running statistics move alike on ranks with and without samples") {
  for (const bool moving_average : {true, false}) {
    check_empty_ranks_in<double, 1>({3, 2, 2}, moving_average);
    check_empty_ranks_in<float, 8>({10, 3, 5}, moving_average);
    check_empty_ranks_in<float, 8>({9, 1, 1}, moving_average);
  }
}

TEST_CASE("batch_norm: a rank without samples takes over no statistics that are not finite") {
  constexpr std::size_t channels = 10, nan_channel = 4, infinite_channel = 7;
  using layer = batch_norm_fixture<float, 8, epilogue::store>;
  for (const bool moving_average : {true, false}) {
    const batch_norm_problem p{{channels, 3, 5}, 0, moving_average};
    std::vector<layer> ranks{layer(p, 2), layer(p, 0)};
    for (std::size_t i = 0; i < ranks[0].x.size(); ++i) {
      if (ranks[0].channel_of(i) == nan_channel) ranks[0].x[i] = std::nanf("");
      if (ranks[0].channel_of(i) == infinite_channel) ranks[0].x[i] = HUGE_VALF;
    }
    rank_sum m(2);
    m.on_each_rank([&](rank_sum::participant& self) {
      layer& own = ranks[self.rank];
      own.mean.assign(channels, 2);
      own.variance.assign(channels, 3);
      own.allreduce = {rank_sum::sum, &self};
      own.forward();
    });
    for (std::size_t c = 0; c < channels; ++c) {
      CAPTURE(c);
      const bool is_finite = c != nan_channel && c != infinite_channel;
      CHECK(std::isfinite(ranks[0].variance[c]) == is_finite);
      CHECK(ranks[1].mean[c] == (is_finite ? ranks[0].mean[c] : 2));
      CHECK(ranks[1].variance[c] == (is_finite ? ranks[0].variance[c] : 3));
    }
  }
}

TEST_CASE("batch_norm: shared statistics with ghost batches throw") {
  batch_norm_fixture<double, 1, epilogue::store> bn({{1, 1, 1}, 2}, 4);
  bn.allreduce = {[](void*, std::span<double>) {}, nullptr};
  CHECK_THROWS_AS(bn.forward(), usage_error);
}
