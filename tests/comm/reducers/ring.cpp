// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/delayed_comm.hpp"
#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

static_assert(ReducerOn<ring<threads>, float, cpu>);
static_assert(ReducerOn<ring<delayed_comm<threads>>, double, cpu>);
static_assert(!FusedAddOn<delayed_comm<threads>, float, cpu>,
              "so that the scratch path is tested too");

namespace {

std::vector<std::size_t> lengths(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  return {0, 1, p - 1, p, p + 1, 997, 4096};
}

template <class Real, class Communicator>
std::vector<Real> mixed(const ring<Communicator>& r, std::vector<Real> x) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  bucket_view<Real, cpu, 0> m{nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}};
  r.mix(m, step_info{}, cpu::stream{});
  return x;
}

template <class Real>
std::vector<Real> noise(int rank, std::size_t n) {
  random_sequence random(7, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

}  // namespace

TEST_CASE(
    "ring keeps the laws of an exact reducer: 2(p-1) messages a rank, 2n(p-1) numbers in all") {
  CHECK(reducer_laws([](auto comm) { return ring{comm}; },
                     {.messages = [](int, int p) { return to_size(2 * (p - 1)); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * to_size(p - 1); }}) ==
        "");
}

TEST_CASE_TEMPLATE("ring: the mean of integers is exact on every rank", Real, float, double) {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks)) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto by_rank = on_ranks(ranks, [&](threads comm) {
        std::vector<Real> x(n);
        for (std::size_t i = 0; i < n; ++i)
          x[i] = static_cast<Real>(ranks * (comm.rank() + static_cast<int>(i % 50)));
        return mixed(ring{comm}, x);
      });
      for (const auto& x : by_rank)
        for (std::size_t i = 0; i < n; ++i)
          REQUIRE(x[i] ==
                  static_cast<Real>(ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i % 50)));
    }
}

TEST_CASE_TEMPLATE("ring: every rank ends with the same bits", Real, float, double) {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks)) {
      const auto by_rank = on_ranks(
          ranks, [&](threads comm) { return mixed(ring{comm}, noise<Real>(comm.rank(), n)); });
      for (const auto& x : by_rank) CHECK(same_bits(x, by_rank[0]));
      const auto mean = mean_over(ranks, [n](int rank) { return noise<Real>(rank, n); });
      for (std::size_t i = 0; i < n; i += 17)
        CHECK(close(static_cast<double>(by_rank[0][i]), mean[i], sizeof(Real) == 4 ? 1e-6 : 1e-14));
    }
}

TEST_CASE("ring: fused add and the scratch path give the same bits") {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks))
      on_ranks(ranks, [&](threads comm) {
        const auto a = mixed(ring{comm}, noise<float>(comm.rank(), n));
        const auto b = mixed(ring{delayed_comm{comm, 1e12, std::chrono::microseconds(0)}},
                             noise<float>(comm.rank(), n));
        CHECK(same_bits(a, b));
        return 0;
      });
}

TEST_CASE("ring: one NaN or infinity on one rank is not finite on any") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
    for (const auto& x : on_ranks(5, [&](threads comm) {
           auto own = noise<float>(comm.rank(), 13);
           if (comm.rank() == 3) own[11] = bad;
           return mixed(ring{comm}, own);
         })) {
      CHECK_FALSE(std::isfinite(x[11]));
      CHECK(std::isfinite(x[10]));
    }
}

TEST_CASE("ring: one value reduces float and double") {
  on_ranks(3, [](threads comm) {
    const ring r{comm};
    CHECK(mixed(r, std::vector<float>{3, 6})[1] == 6);
    CHECK(mixed(r, std::vector<double>{3, 6})[1] == 6);
    return 0;
  });
}
