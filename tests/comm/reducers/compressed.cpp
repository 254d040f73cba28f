// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

using fp16_ring = compressed<ring<threads>, fp16>;
static_assert(ReducerOn<fp16_ring, float, cpu> && ReducerOn<fp16_ring, double, cpu>);
static_assert(CompressibleOn<ring<threads>, fp16, float, cpu> &&
              !CompressibleOn<solo, fp16, float, cpu>);
static_assert(!CompressibleOn<native<threads>, fp16, float, cpu>, "a native mean has no hops");
static_assert(!fp16_ring::lossless && fp16_ring::offers == agreement::exact);

namespace {

template <class Real = float>
std::vector<Real> noise(int rank, std::size_t n, std::uint64_t step = 0) {
  random_sequence random(9, purpose::test, static_cast<std::uint64_t>(rank), step);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

// x <- the mean; `lost` is the slot.
template <class Reducer, class Real>
void mix(const Reducer& r, std::vector<Real>& x, std::vector<Real>& lost,
         const bucket* layout = nullptr) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  r.mix(bucket_view<Real, cpu, 1>{layout,
                                  {x.data(), x.size()},
                                  {span_on<Real, cpu>{lost.data(), lost.size()}},
                                  {scratch.data(), scratch.size()}},
        step_info{}, cpu::stream{});
}

// f(name, make) for the compressed methods.
template <class F>
void each_method(const F& f) {
  f("ring", [](auto comm) { return compressed{ring{comm}, fp16{}}; });
  f("tree", [](auto comm) { return compressed{tree{comm}, fp16{}}; });
  f("butterfly", [](auto comm) { return compressed{butterfly{comm}, fp16{}}; });
  f("halving_doubling", [](auto comm) { return compressed{halving_doubling{comm}, fp16{}}; });
}

}  // namespace

TEST_CASE("compressed keeps the laws of an exact reducer up to rounding") {
  each_method([](const char* name, const auto& make) {
    CAPTURE(name);
    CHECK(reducer_laws(make, {.ranks = {1, 2, 3, 5, 8}, .rounding = 1.0 / 500}) == "");
  });
  CHECK(reducer_laws(
            [](auto comm) {
              return compressed{ring{comm}, fp32{}};
            },
            {.ranks = {3, 4}, .rounding = 1e-6}) == "");
}

TEST_CASE("compressed: the slots hold what the encodings lost: mean and losses add up to the sum") {
  each_method([](const char* name, const auto& make) {
    for (const int ranks : rank_counts) {
      CAPTURE(name);
      CAPTURE(ranks);
      constexpr std::size_t n = 301;
      struct result {
        std::vector<double> mean, lost;
      };
      const auto by_rank = on_ranks(ranks, [&](threads comm) {
        std::vector<double> x = noise<double>(comm.rank(), n), lost(n);
        mix(make(comm), x, lost);
        return result{x, lost};
      });
      const auto mean = mean_over(ranks, [](int rank) { return noise<double>(rank, n); });
      double most_lost = 0;
      for (std::size_t i = 0; i < n; ++i) {
        double total = ranks * by_rank[0].mean[i];
        for (int r = 0; r < ranks; ++r) {
          total += by_rank[static_cast<std::size_t>(r)].lost[i];
          most_lost = std::max(most_lost, std::abs(by_rank[static_cast<std::size_t>(r)].lost[i]));
        }
        REQUIRE(close(total, ranks * mean[i], 1e-12));
      }
      CHECK((ranks == 1 || most_lost > 1e-5));
      CHECK(most_lost < 0.05);
    }
  });
}

TEST_CASE("compressed: over many steps the means add up, without error feedback they drift") {
  constexpr std::size_t n = 64;
  constexpr int steps = 300, ranks = 3;
  for (const bool error_feedback : {true, false}) {
    double worst = 0;
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      const compressed reducer{ring{comm}, fp16{}};
      std::vector<float> lost(n);
      std::vector<double> total(n);
      for (int step = 0; step < steps; ++step) {
        std::vector<float> x = noise(comm.rank(), n);  // the same gradient in every step
        mix(reducer, x, lost);
        if (!error_feedback) std::fill(lost.begin(), lost.end(), 0.0f);
        for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<double>(x[i]);
      }
      return total;
    });
    const auto mean = mean_over(ranks, [](int rank) { return noise(rank, n); });
    for (std::size_t i = 0; i < n; ++i)
      worst = std::max(worst, std::abs(by_rank[0][i] - steps * mean[i]));
    if (error_feedback)
      CHECK(worst < 0.01);
    else
      CHECK(worst > 0.05);
  }
}

TEST_CASE("compressed: each segment has a scale of its own, and infinity stays in its segment") {
  // Magnitudes 1e-9, 1 and 1e9; with one scale for all, the first would be rounded to 0.
  constexpr std::array<segment, 3> table{segment{"a", kind::weight, 128, 100},
                                         segment{"b", kind::bias, 256, 3},
                                         segment{"c", kind::weight, 320, 500}};
  const bucket b{0, 128, 704, table, 0};
  const auto gradient = [&](int rank, bool has_infinity) {
    std::vector<float> x(b.size);
    const auto random = noise(rank, b.size);
    for (std::size_t k = 0; k < table.size(); ++k)
      for (std::size_t i = 0; i < table[k].size; ++i) {
        const std::size_t j = table[k].offset - b.offset + i;
        x[j] = random[j] * std::array{1e-9f, 1.0f, 1e9f}[k];
      }
    if (has_infinity) x[table[1].offset - b.offset + 2] = HUGE_VALF;
    return x;
  };
  each_method([&](const char* name, const auto& make) {
    for (const int ranks : {2, 3, 5, 8})
      for (const bool has_infinity : {false, true}) {
        CAPTURE(name);
        CAPTURE(ranks);
        std::vector<double> mean(b.size), most(b.size);
        for (int r = 0; r < ranks; ++r) {
          const std::vector<float> x = gradient(r, false);
          for (std::size_t i = 0; i < b.size; ++i) {
            mean[i] += static_cast<double>(x[i]) / ranks;
            most[i] += std::abs(static_cast<double>(x[i]));
          }
        }
        const auto by_rank = on_ranks(ranks, [&](threads comm) {
          std::vector<float> x = gradient(comm.rank(), has_infinity && comm.rank() == 1),
                             lost(b.size);
          mix(make(comm), x, lost, &b);
          return x;
        });
        for (const segment& s : table)
          for (std::size_t i = 0; i < s.size; ++i) {
            const std::size_t j = s.offset - b.offset + i;
            if (has_infinity && s.name == "b") {
              if (i == 2) CHECK_FALSE(std::isfinite(by_rank[0][j]));
              continue;
            }
            REQUIRE(std::abs(static_cast<double>(by_rank[0][j]) - mean[j]) <= most[j] / 400);
          }
      }
  });
}

TEST_CASE("compressed: as many messages as uncompressed, two bytes a number and a scale a chunk") {
  for (const int ranks : {2, 3, 8}) {
    constexpr std::size_t n = 960;
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<traffic> sent(p);
    on_ranks(ranks, [&](threads comm) {
      std::vector<float> x(n), lost(n);
      mix(compressed{ring{
                         counting_communicator{comm, &sent[static_cast<std::size_t>(comm.rank())]}},
                     fp16{}},
          x, lost);
      return 0;
    });
    for (const traffic& t : sent) {
      CHECK(t.messages == 2 * (p - 1));
      CHECK(t.bytes == 2 * (p - 1) * (2 * n / p + 4));
    }
  }
}

TEST_CASE("compressed describes itself") {
  on_ranks(2, [](threads comm) {
    CHECK(compressed{ring{comm}, fp16{}}.describe() ==
          "ring over 2 ranks: exact mean, every hop in fp16 with error feedback");
    return 0;
  });
}
