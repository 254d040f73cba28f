// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/slowed.hpp"

using namespace cordee;
using namespace support;

static_assert(ReducerOn<ring<threads>, float, cpu>);
static_assert(ReducerOn<ring<slowed<threads>>, double, cpu>);
static_assert(!AddsOn<slowed<threads>, float, cpu>, "so that the scratch path is tested too");

namespace {

std::vector<std::size_t> lengths(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  return {0, 1, p - 1, p, p + 1, 997, 4096};
}

template <class Real, class Link>
std::vector<Real> mixed(const ring<Link>& r, std::vector<Real> x) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  message<Real, cpu, 0> m{nullptr, {x.data(), x.size()}, {}, {scratch.data(), scratch.size()}};
  r.mix(m, moment{}, cpu::stream{});
  return x;
}

template <class Real>
std::vector<Real> noise(int rank, std::size_t n) {
  random_sequence random(7, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

// Counts messages and bytes sent.
struct metered {
  static constexpr bool blocks_host = true;
  threads link;
  std::size_t* messages;
  std::size_t* sent;

  int rank() const { return link.rank(); }
  int size() const { return link.size(); }
  metered lane(int k) const { return {link.lane(k), messages, sent}; }
  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    *messages += out.size();
    for (const auto& m : out) *sent += m.bytes.size;
    link.exchange(out, in, s);
  }
};

}  // namespace

TEST_CASE("ring keeps the laws: 2(p-1) messages a rank, 2n(p-1) numbers in all") {
  CHECK(reducer_laws([](auto link) { return ring{link}; },
                     {.messages = [](int, int p) { return whole(2 * (p - 1)); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE_TEMPLATE("ring: the mean of whole numbers is exact on every rank", Real, float, double) {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks)) {
      CAPTURE(ranks);
      CAPTURE(n);
      const auto by_rank = on_ranks(ranks, [&](threads link) {
        std::vector<Real> x(n);
        for (std::size_t i = 0; i < n; ++i)
          x[i] = static_cast<Real>(ranks * (link.rank() + static_cast<int>(i % 50)));
        return mixed(ring{link}, x);
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
          ranks, [&](threads link) { return mixed(ring{link}, noise<Real>(link.rank(), n)); });
      for (const auto& x : by_rank)
        CHECK((n == 0 || std::memcmp(x.data(), by_rank[0].data(), n * sizeof(Real)) == 0));
      for (std::size_t i = 0; i < n; i += 17) {
        double mean = 0;
        for (int r = 0; r < ranks; ++r) mean += static_cast<double>(noise<Real>(r, n)[i]) / ranks;
        CHECK(close(static_cast<double>(by_rank[0][i]), mean, sizeof(Real) == 4 ? 1e-6 : 1e-14));
      }
    }
}

TEST_CASE("ring: adding on arrival and the scratch path give the same bits") {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks))
      on_ranks(ranks, [&](threads link) {
        const auto a = mixed(ring{link}, noise<float>(link.rank(), n));
        const auto b = mixed(ring{slowed{link, 1e12, std::chrono::microseconds(0)}},
                             noise<float>(link.rank(), n));
        CHECK((n == 0 || std::memcmp(a.data(), b.data(), n * sizeof(float)) == 0));
        return 0;
      });
}

TEST_CASE("ring: 2(p-1) messages and, over all ranks, 2n(p-1) numbers") {
  for (const int ranks : rank_counts)
    for (const std::size_t n : lengths(ranks)) {
      std::size_t bytes_sent = 0;
      for (const auto& [messages, sent] : on_ranks(ranks, [&](threads link) {
             std::size_t messages = 0, sent = 0;
             mixed(ring{metered{link, &messages, &sent}}, noise<float>(link.rank(), n));
             return std::pair{messages, sent};
           })) {
        CHECK(messages == static_cast<std::size_t>(2 * (ranks - 1)));
        bytes_sent += sent;
      }
      CHECK(bytes_sent == 2 * n * static_cast<std::size_t>(ranks - 1) * sizeof(float));
    }
}

TEST_CASE("ring: one value that is not finite makes its mean so on every rank") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()})
    for (const auto& x : on_ranks(5, [&](threads link) {
           auto mine = noise<float>(link.rank(), 13);
           if (link.rank() == 3) mine[11] = bad;
           return mixed(ring{link}, mine);
         })) {
      CHECK_FALSE(std::isfinite(x[11]));
      CHECK(std::isfinite(x[10]));
    }
}

TEST_CASE("one ring serves both precisions") {
  on_ranks(3, [](threads link) {
    const ring r{link};
    CHECK(mixed(r, std::vector<float>{3, 6})[1] == 6);
    CHECK(mixed(r, std::vector<double>{3, 6})[1] == 6);
    return 0;
  });
}
