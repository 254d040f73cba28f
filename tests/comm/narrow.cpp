// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/reducer_laws.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

using narrow_ring = narrow<ring<threads>, fp16>;
static_assert(ReducerOn<narrow_ring, float, cpu> && ReducerOn<narrow_ring, double, cpu>);
static_assert(NarrowsOn<ring<threads>, fp16, float, cpu> && !NarrowsOn<solo, fp16, float, cpu>);
static_assert(!NarrowsOn<native<threads>, fp16, float, cpu>, "a native mean has no hops");
static_assert(!narrow_ring::lossless && narrow_ring::offers == agreement::exact);

namespace {

template <class Real = float>
std::vector<Real> noise(int rank, std::size_t n, std::uint64_t step = 0) {
  random_sequence random(9, purpose::test, static_cast<std::uint64_t>(rank), step);
  std::vector<Real> x(n);
  for (Real& v : x) v = static_cast<Real>(random.normal());
  return x;
}

// x <- the mean, `lost` is the slot.
template <class Reducer, class Real>
void mix(const Reducer& r, std::vector<Real>& x, std::vector<Real>& lost,
         const bucket* which = nullptr) {
  std::vector<std::byte> scratch(r.template scratch<Real>(x.size()));
  r.mix(message<Real, cpu, 1>{which,
                              {x.data(), x.size()},
                              {span_on<Real, cpu>{lost.data(), lost.size()}},
                              {scratch.data(), scratch.size()}},
        moment{}, cpu::stream{});
}

// f(make) for each method that can be narrowed.
template <class F>
void each_method(const F& f) {
  f("ring", [](auto link) { return narrow{ring{link}, fp16{}}; });
  f("tree", [](auto link) { return narrow{tree{link}, fp16{}}; });
  f("butterfly", [](auto link) { return narrow{butterfly{link}, fp16{}}; });
  f("halving", [](auto link) { return narrow{halving{link}, fp16{}}; });
}

}  // namespace

TEST_CASE("narrow keeps the laws of an exact reducer, but for the rounding") {
  each_method([](const char* name, const auto& make) {
    CAPTURE(name);
    CHECK(reducer_laws(make, {.ranks = {1, 2, 3, 5, 8}, .rounding = 1.0 / 500}) == "");
  });
  CHECK(reducer_laws(
            [](auto link) {
              return narrow{ring{link}, fp32{}};
            },
            {.ranks = {3, 4}, .rounding = 1e-6}) == "");
}

TEST_CASE("what the encodings lost is in the slots: nothing of the sum is missing") {
  each_method([](const char* name, const auto& make) {
    for (const int ranks : rank_counts) {
      CAPTURE(name);
      CAPTURE(ranks);
      constexpr std::size_t n = 301;
      struct left {
        std::vector<double> mean, lost;
      };
      const auto by_rank = on_ranks(ranks, [&](threads link) {
        std::vector<double> x = noise<double>(link.rank(), n), lost(n);
        mix(make(link), x, lost);
        return left{x, lost};
      });
      double most_lost = 0;
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0, said = ranks * by_rank[0].mean[i];
        for (int r = 0; r < ranks; ++r) {
          sum += noise<double>(r, n)[i];
          said += by_rank[static_cast<std::size_t>(r)].lost[i];
          most_lost = std::max(most_lost, std::abs(by_rank[static_cast<std::size_t>(r)].lost[i]));
        }
        REQUIRE(close(said, sum, 1e-12));
      }
      CHECK((ranks == 1 || most_lost > 1e-5));
      CHECK(most_lost < 0.05);
    }
  });
}

TEST_CASE("over many steps the means add up, where without memory they would drift") {
  constexpr std::size_t n = 64;
  constexpr int steps = 300, ranks = 3;
  for (const bool remembers : {true, false}) {
    double worst = 0;
    const auto by_rank = on_ranks(ranks, [&](threads link) {
      const narrow reducer{ring{link}, fp16{}};
      std::vector<float> lost(n);
      std::vector<double> total(n);
      for (int step = 0; step < steps; ++step) {
        std::vector<float> x = noise(link.rank(), n);  // the same gradient again and again
        mix(reducer, x, lost);
        if (!remembers) std::fill(lost.begin(), lost.end(), 0.0f);
        for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<double>(x[i]);
      }
      return total;
    });
    for (std::size_t i = 0; i < n; ++i) {
      double mean = 0;
      for (int r = 0; r < ranks; ++r) mean += static_cast<double>(noise(r, n)[i]) / ranks;
      worst = std::max(worst, std::abs(by_rank[0][i] - steps * mean));
    }
    if (remembers)
      CHECK(worst < 0.01);
    else
      CHECK(worst > 0.05);
  }
}

TEST_CASE("each segment has a scale of its own, and spoils itself alone") {
  // Magnitudes 1e-9, 1 and 1e9; one scale for all would leave nothing of the first.
  constexpr std::array<segment, 3> table{segment{"a", kind::weight, 128, 100},
                                         segment{"b", kind::bias, 256, 3},
                                         segment{"c", kind::weight, 320, 500}};
  const bucket b{0, 128, 704, table, 0};
  const auto gradient = [&](int rank, bool spoilt) {
    std::vector<float> x(b.size);
    const auto random = noise(rank, b.size);
    for (std::size_t k = 0; k < table.size(); ++k)
      for (std::size_t i = 0; i < table[k].size; ++i) {
        const std::size_t at = table[k].offset - b.offset + i;
        x[at] = random[at] * std::array{1e-9f, 1.0f, 1e9f}[k];
      }
    if (spoilt) x[table[1].offset - b.offset + 2] = HUGE_VALF;
    return x;
  };
  each_method([&](const char* name, const auto& make) {
    for (const int ranks : {2, 3, 5, 8})
      for (const bool spoilt : {false, true}) {
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
        const auto by_rank = on_ranks(ranks, [&](threads link) {
          std::vector<float> x = gradient(link.rank(), spoilt && link.rank() == 1), lost(b.size);
          mix(make(link), x, lost, &b);
          return x;
        });
        for (const segment& s : table)
          for (std::size_t i = 0; i < s.size; ++i) {
            const std::size_t at = s.offset - b.offset + i;
            if (spoilt && s.name == "b") {
              if (i == 2) CHECK_FALSE(std::isfinite(by_rank[0][at]));
              continue;
            }
            REQUIRE(std::abs(static_cast<double>(by_rank[0][at]) - mean[at]) <= most[at] / 400);
          }
      }
  });
}

TEST_CASE("every hop is narrow: as many messages, two bytes a number and a scale a block") {
  for (const int ranks : {2, 3, 8}) {
    constexpr std::size_t n = 960;
    const auto p = static_cast<std::size_t>(ranks);
    std::vector<traffic> sent(p);
    on_ranks(ranks, [&](threads link) {
      std::vector<float> x(n), lost(n);
      mix(narrow{ring{counted{link, &sent[static_cast<std::size_t>(link.rank())]}}, fp16{}}, x,
          lost);
      return 0;
    });
    for (const traffic& t : sent) {
      CHECK(t.messages == 2 * (p - 1));
      CHECK(t.bytes == 2 * (p - 1) * (2 * n / p + 4));
    }
  }
}

TEST_CASE("narrow says what it is") {
  on_ranks(2, [](threads link) {
    CHECK(narrow{ring{link}, fp16{}}.describe() ==
          "ring over 2 ranks: exact mean, every hop in fp16 with error feedback");
    return 0;
  });
}
