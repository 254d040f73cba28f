// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What bf16 and int8 keep on a wire, over every method that can be narrowed.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/hierarchical.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/torus_ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/testing/counted.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(!narrow<ring<threads>, int8>::lossless && !narrow<ring<threads>, bf16>::lossless);
static_assert(narrow<torus_ring<threads>, int8>::offers == agreement::exact);

namespace {

// By name, so that each reducer is instantiated once a wire.
enum class method { ring, tree, butterfly, halving, hierarchical, torus_ring, double_tree, hybrid };
constexpr std::array methods{method::ring,        method::tree,         method::butterfly,
                             method::halving,     method::hierarchical, method::torus_ring,
                             method::double_tree, method::hybrid};

struct left {
  std::vector<float> mean, lost;
  traffic sent;
};

// One mean with what was lost before in `lost`.
template <class P>
left mixed(method by, threads link, std::vector<float> x, std::vector<float> lost) {
  traffic sent;
  const counted here{link, &sent};
  const auto mix = [&](const auto& reducer) {
    std::vector<std::byte> scratch(reducer.template scratch<float>(x.size()));
    reducer.mix(message<float, cpu, 1>{nullptr,
                                       {x.data(), x.size()},
                                       {span_on<float, cpu>{lost.data(), lost.size()}},
                                       {scratch.data(), scratch.size()}},
                moment{}, cpu::stream{});
  };
  switch (by) {
    case method::ring:
      mix(narrow{ring{here}, P{}});
      break;
    case method::tree:
      mix(narrow{tree{here}, P{}});
      break;
    case method::butterfly:
      mix(narrow{butterfly{here}, P{}});
      break;
    case method::halving:
      mix(narrow{halving{here}, P{}});
      break;
    case method::hierarchical:
      mix(narrow{hierarchical{here, nodes{3}}, P{}});
      break;
    case method::torus_ring:
      mix(narrow{torus_ring{here}, P{}});
      break;
    case method::double_tree:
      mix(narrow{double_tree{here, 40}, P{}});
      break;
    case method::hybrid:
      mix(narrow{hybrid{tree{here}, ring{here}, 100}, P{}});
      break;
  }
  return {x, lost, sent};
}

std::vector<float> noise(int rank, std::size_t n) {
  random_sequence random(9, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.normal());
  return x;
}

template <class F>
void each_method(std::initializer_list<int> rank_counts_here, const F& f) {
  for (const method by : methods)
    for (const int ranks : rank_counts_here) {
      CAPTURE(static_cast<int>(by));
      CAPTURE(ranks);
      f(by, ranks);
    }
}

}  // namespace

TEST_CASE_TEMPLATE("narrow: all ranks leave with the same bits, and nothing of a sum is missing", P,
                   bf16, int8) {
  constexpr bool bytes = sizeof(typename P::storage) == 1;
  each_method({1, 2, 3, 5, 6, 8, 9}, [](method by, int ranks) {
    constexpr std::size_t n = 301;
    const auto by_rank = on_ranks(ranks, [&](threads link) {
      return mixed<P>(by, link, noise(link.rank(), n), std::vector<float>(n));
    });
    // An encoding loses half a unit of its piece's largest, and no partial sum is larger than
    // `all`.
    std::vector<double> sum(n);
    double all = 0, lost_most = 0;
    int wrong = 0;
    for (int r = 0; r < ranks; ++r) {
      double most = 0;
      const std::vector<float> theirs = noise(r, n);
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] += static_cast<double>(theirs[i]);
        most = std::max(most, std::abs(static_cast<double>(theirs[i])));
      }
      all += most;
    }
    for (std::size_t i = 0; i < n; ++i) {
      double said = ranks * static_cast<double>(by_rank[0].mean[i]);
      for (int r = 0; r < ranks; ++r) {
        const left& of = by_rank[static_cast<std::size_t>(r)];
        wrong += of.mean[i] != by_rank[0].mean[i];
        said += static_cast<double>(of.lost[i]);
        lost_most = std::max(lost_most, std::abs(static_cast<double>(of.lost[i])));
      }
      wrong += !close(said, sum[i], 1e-5);
    }
    CHECK(wrong == 0);
    // A butterfly encodes at each of up to four steps, others once.
    const double unit = bytes ? 1.0 / 254 : 1.0 / 512, times = by == method::butterfly ? 4 : 1;
    CHECK(lost_most <= times * all * unit * 1.001);
    CHECK((ranks == 1 || lost_most > unit / 50));
  });
}

TEST_CASE_TEMPLATE("narrow: whole numbers that a wire can say arrive exactly", P, bf16, int8) {
  // One rank has them, and a largest one beside each; a mean over 2^k ranks is a scaled one of
  // them.
  constexpr std::size_t n = 2 * 255;
  each_method({2, 4, 8}, [](method by, int ranks) {
    const auto number = [](std::size_t i) {
      return static_cast<float>(i % 2 == 0 ? 127 : static_cast<int>(i / 2 % 255) - 127);
    };
    const auto by_rank = on_ranks(ranks, [&](threads link) {
      std::vector<float> x(n);
      for (std::size_t i = 0; link.rank() == 1 && i < n; ++i) x[i] = number(i);
      return mixed<P>(by, link, x, std::vector<float>(n));
    });
    int wrong = 0;
    for (const left& of : by_rank)
      for (std::size_t i = 0; i < n; ++i)
        wrong += of.mean[i] != number(i) / static_cast<float>(ranks) || of.lost[i] != 0;
    CHECK(wrong == 0);
  });
}

TEST_CASE_TEMPLATE("narrow: what is not a number anywhere is none everywhere", P, bf16, int8) {
  constexpr std::size_t n = 301;
  each_method({2, 3, 6}, [](method by, int ranks) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
      const auto by_rank = on_ranks(ranks, [&](threads link) {
        std::vector<float> x = noise(link.rank(), n);
        if (link.rank() == ranks - 1) x[n / 3] = bad;
        return mixed<P>(by, link, x, std::vector<float>(n));
      });
      for (const left& of : by_rank) CHECK_FALSE(std::isfinite(of.mean[n / 3]));
    }
  });
}

TEST_CASE("narrow to bytes: with memory the means add up, without it they drift") {
  constexpr std::size_t n = 64;
  constexpr int steps = 100, ranks = 3;
  for (const bool remembers : {true, false}) {
    const auto totals = on_ranks(ranks, [&](threads link) {
      std::vector<float> lost(n);
      std::vector<double> total(n);
      for (int step = 0; step < steps; ++step) {
        const left now = mixed<int8>(method::ring, link, noise(link.rank(), n), lost);
        if (remembers) lost = now.lost;
        for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<double>(now.mean[i]);
      }
      return total;
    });
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double mean = 0;
      for (int r = 0; r < ranks; ++r) mean += static_cast<double>(noise(r, n)[i]) / ranks;
      worst = std::max(worst, std::abs(totals[0][i] - steps * mean));
    }
    CHECK((worst < 0.1) == remembers);
  }
}

TEST_CASE("narrow: two bytes a number, or one and a scale of eight a block") {
  constexpr std::size_t n = 960, p = 6;
  const auto sent = [](auto precision) {
    return on_ranks(p, [&](threads link) {
      return mixed<decltype(precision)>(method::ring, link, noise(link.rank(), n),
                                        std::vector<float>(n))
          .sent;
    })[2];
  };
  CHECK(sent(bf16{}).bytes == 2 * (p - 1) * (2 * n / p));
  CHECK(sent(int8{}).bytes == 2 * (p - 1) * (n / p + 8));
  CHECK(sent(int8{}).messages == 2 * (p - 1));
}
