// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compression to bf16 and int8, over every method that can be compressed.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/butterfly.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/double_tree.hpp>
#include <cordee/comm/reducers/halving_doubling.hpp>
#include <cordee/comm/reducers/hierarchical.hpp>
#include <cordee/comm/reducers/hybrid.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/torus_ring.hpp>
#include <cordee/comm/reducers/tree.hpp>
#include <cordee/core/random.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(!compressed<ring<threads>, int8>::lossless &&
              !compressed<ring<threads>, bf16>::lossless);
static_assert(compressed<torus_ring<threads>, int8>::offers == agreement::exact);

namespace {

// A value, so that each reducer is instantiated once a precision.
enum class method {
  ring,
  tree,
  butterfly,
  halving_doubling,
  hierarchical,
  torus_ring,
  double_tree,
  hybrid
};
constexpr std::array methods{
    method::ring,         method::tree,       method::butterfly,   method::halving_doubling,
    method::hierarchical, method::torus_ring, method::double_tree, method::hybrid};

struct result {
  std::vector<float> mean, lost;
  traffic sent;
};

// One mean; `lost` holds what earlier ones lost.
template <class P>
result mean_by(method m, threads comm, std::vector<float> x, std::vector<float> lost) {
  traffic sent;
  const counting_communicator counting{comm, &sent};
  const auto mix = [&](const auto& reducer) {
    std::vector<std::byte> scratch(reducer.template scratch<float>(x.size()));
    reducer.mix(bucket_view<float, cpu, 1>{nullptr,
                                           {x.data(), x.size()},
                                           {span_on<float, cpu>{lost.data(), lost.size()}},
                                           {scratch.data(), scratch.size()}},
                step_info{}, cpu::stream{});
  };
  switch (m) {
    case method::ring:
      mix(compressed{ring{counting}, P{}});
      break;
    case method::tree:
      mix(compressed{tree{counting}, P{}});
      break;
    case method::butterfly:
      mix(compressed{butterfly{counting}, P{}});
      break;
    case method::halving_doubling:
      mix(compressed{halving_doubling{counting}, P{}});
      break;
    case method::hierarchical:
      mix(compressed{hierarchical{counting, nodes{3}}, P{}});
      break;
    case method::torus_ring:
      mix(compressed{torus_ring{counting}, P{}});
      break;
    case method::double_tree:
      mix(compressed{double_tree{counting, 40}, P{}});
      break;
    case method::hybrid:
      mix(compressed{hybrid{tree{counting}, ring{counting}, 100}, P{}});
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
void each_method(std::initializer_list<int> counts, const F& f) {
  for (const method m : methods)
    for (const int ranks : counts) {
      CAPTURE(static_cast<int>(m));
      CAPTURE(ranks);
      f(m, ranks);
    }
}

}  // namespace

TEST_CASE_TEMPLATE(
    "compressed: all ranks end with the same bits, and mean and losses add up to the sum", P, bf16,
    int8) {
  constexpr bool bytes = sizeof(typename P::storage) == 1;
  each_method({1, 2, 3, 5, 6, 8, 9}, [](method m, int ranks) {
    constexpr std::size_t n = 301;
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      return mean_by<P>(m, comm, noise(comm.rank(), n), std::vector<float>(n));
    });
    // An encoding loses half a unit of the largest number of its piece, and no partial sum exceeds
    // `largest_sum`.
    std::vector<double> sum(n);
    double largest_sum = 0, largest_loss = 0;
    int wrong = 0;
    for (int r = 0; r < ranks; ++r) {
      double most = 0;
      const std::vector<float> x = noise(r, n);
      for (std::size_t i = 0; i < n; ++i) {
        sum[i] += static_cast<double>(x[i]);
        most = std::max(most, std::abs(static_cast<double>(x[i])));
      }
      largest_sum += most;
    }
    for (std::size_t i = 0; i < n; ++i) {
      double total = ranks * static_cast<double>(by_rank[0].mean[i]);
      for (int r = 0; r < ranks; ++r) {
        const result& of = by_rank[static_cast<std::size_t>(r)];
        wrong += !same_bits(of.mean[i], by_rank[0].mean[i]);
        total += static_cast<double>(of.lost[i]);
        largest_loss = std::max(largest_loss, std::abs(static_cast<double>(of.lost[i])));
      }
      wrong += !close(total, sum[i], 1e-5);
    }
    CHECK(wrong == 0);
    // A butterfly encodes at each of up to four steps, others once.
    const double unit = bytes ? 1.0 / 254 : 1.0 / 512, times = m == method::butterfly ? 4 : 1;
    CHECK(largest_loss <= times * largest_sum * unit * 1.001);
    CHECK((ranks == 1 || largest_loss > unit / 50));
  });
}

TEST_CASE_TEMPLATE("compressed: integers that P represents arrive exactly", P, bf16, int8) {
  // One rank has them, each beside a largest one; the mean over 2^k ranks is scaled exactly.
  constexpr std::size_t n = 2 * 255;
  each_method({2, 4, 8}, [](method m, int ranks) {
    const auto number = [](std::size_t i) {
      return static_cast<float>(i % 2 == 0 ? 127 : static_cast<int>(i / 2 % 255) - 127);
    };
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      std::vector<float> x(n);
      for (std::size_t i = 0; comm.rank() == 1 && i < n; ++i) x[i] = number(i);
      return mean_by<P>(m, comm, x, std::vector<float>(n));
    });
    int wrong = 0;
    for (const result& of : by_rank)
      for (std::size_t i = 0; i < n; ++i)
        wrong += of.mean[i] != number(i) / static_cast<float>(ranks) || of.lost[i] != 0;
    CHECK(wrong == 0);
  });
}

TEST_CASE_TEMPLATE("compressed: NaN or infinity on one rank is not finite on any", P, bf16, int8) {
  constexpr std::size_t n = 301;
  each_method({2, 3, 6}, [](method m, int ranks) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
      const auto by_rank = on_ranks(ranks, [&](threads comm) {
        std::vector<float> x = noise(comm.rank(), n);
        if (comm.rank() == ranks - 1) x[n / 3] = bad;
        return mean_by<P>(m, comm, x, std::vector<float>(n));
      });
      for (const result& of : by_rank) CHECK_FALSE(std::isfinite(of.mean[n / 3]));
    }
  });
}

TEST_CASE("compressed to int8: with error feedback the means add up, without it they drift") {
  constexpr std::size_t n = 64;
  constexpr int steps = 100, ranks = 3;
  for (const bool error_feedback : {true, false}) {
    const auto totals = on_ranks(ranks, [&](threads comm) {
      std::vector<float> lost(n);
      std::vector<double> total(n);
      for (int step = 0; step < steps; ++step) {
        const result step_result = mean_by<int8>(method::ring, comm, noise(comm.rank(), n), lost);
        if (error_feedback) lost = step_result.lost;
        for (std::size_t i = 0; i < n; ++i) total[i] += static_cast<double>(step_result.mean[i]);
      }
      return total;
    });
    double worst = 0;
    const auto mean = mean_over(ranks, [](int rank) { return noise(rank, n); });
    for (std::size_t i = 0; i < n; ++i)
      worst = std::max(worst, std::abs(totals[0][i] - steps * mean[i]));
    CHECK((worst < 0.1) == error_feedback);
  }
}

TEST_CASE(
    "compressed: two bytes a number in bf16, one in int8 and a scale of eight bytes a chunk") {
  constexpr std::size_t n = 960, p = 6;
  const auto sent = [](auto precision) {
    return on_ranks(p, [&](threads comm) {
      return mean_by<decltype(precision)>(method::ring, comm, noise(comm.rank(), n),
                                          std::vector<float>(n))
          .sent;
    })[2];
  };
  CHECK(sent(bf16{}).bytes == 2 * (p - 1) * (2 * n / p));
  CHECK(sent(int8{}).bytes == 2 * (p - 1) * (n / p + 8));
  CHECK(sent(int8{}).messages == 2 * (p - 1));
}
