// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/core/random.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/formulas.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;

namespace {

const by_ranks of_signsgd{{{0.447505743005, -0.149002646403, 0.246858489008, -0.249400250499, 0.15,
                            -0.05, 0.74546108601, -1.54027347102, 0}},
                          {{0.447505743005, -0.149002646403, 0.246858489008, -0.249400250499, 0.15,
                            -0.05, 0.74546108601, -1.54027347102, 0},
                           {0.447505743005, -0.149002646403, 0.246858489008, -0.249400250499, 0.15,
                            -0.05, 0.74546108601, -1.54027347102, 0},
                           {0.447505743005, -0.149002646403, 0.246858489008, -0.249400250499, 0.15,
                            -0.05, 0.74546108601, -1.54027347102, 0}},
                          {{0.347705243405, -0.248803146003, 0.246858489008, -0.249799850599, 0.05,
                            -0.15, 0.64526138591, -1.64017347102, -0.1},
                           {0.347705243405, -0.248803146003, 0.246858489008, -0.249799850599, 0.05,
                            -0.15, 0.64526138591, -1.64017347102, -0.1},
                           {0.347705243405, -0.248803146003, 0.246858489008, -0.249799850599, 0.05,
                            -0.15, 0.64526138591, -1.64017347102, -0.1},
                           {0.347705243405, -0.248803146003, 0.246858489008, -0.249799850599, 0.05,
                            -0.15, 0.64526138591, -1.64017347102, -0.1}}};
const by_ranks of_signum{{{0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.15,
                           -0.35, 0.44576098601, -1.44027347102, 0}},
                         {{0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.15,
                           -0.35, 0.44576098601, -1.44027347102, 0},
                          {0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.15,
                           -0.35, 0.44576098601, -1.44027347102, 0},
                          {0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.15,
                           -0.35, 0.44576098601, -1.44027347102, 0}},
                         {{0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.05,
                           -0.35, 0.44576098601, -1.44027347102, -0.1},
                          {0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.05,
                           -0.35, 0.44576098601, -1.44027347102, -0.1},
                          {0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.05,
                           -0.35, 0.44576098601, -1.44027347102, -0.1},
                          {0.347705243405, -0.0495022465026, 0.246858489008, -0.449300250499, 0.05,
                           -0.35, 0.44576098601, -1.44027347102, -0.1}}};

struct vote {
  std::vector<double> signs, momentum;
  traffic sent;
};

/// x(rank, step) in turn, as one tensor, or as two of n - 64 and 50 numbers with padding between
/// them.
template <class X>
auto votes(int ranks, std::size_t n, double momentum, int steps, const X& x) {
  return on_ranks(ranks, [&](threads comm) {
    std::vector<vote> out;
    traffic sent;
    const majority_vote reducer{counting_communicator{comm, &sent}, {.momentum = momentum}};
    std::vector<double> m(n);
    const std::vector<segment> table{{"a", kind::weight, 0, 50}, {"b", kind::weight, 64, n - 64}};
    const bucket layout{.offset = 0, .size = n, .segments = table};
    std::vector<std::byte> scratch(reducer.template scratch<double>(n) + 8, std::byte{0xa5});
    for (int k = 0; k < steps; ++k) {
      std::vector<double> v = x(comm.rank(), k);
      reducer.mix(bucket_view<double, cpu, 1>{n > 64 ? &layout : nullptr,
                                              {v.data(), n},
                                              {span_on<double, cpu>{m.data(), n}},
                                              {scratch.data(), scratch.size() - 8}},
                  step_info{.step = k}, cpu::stream{});
      for (std::size_t i = 0; i < 8; ++i) CHECK(scratch[scratch.size() - 1 - i] == std::byte{0xa5});
      out.push_back({v, m, sent});
    }
    return out;
  });
}

/// A third of the numbers are zero.
std::vector<double> noise(int rank, int step, std::size_t n) {
  random_sequence random(3, purpose::test, static_cast<std::uint64_t>(rank),
                         static_cast<std::uint64_t>(step));
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = i % 3 == 0 ? 0 : random.normal();
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("majority_vote under sgd is signSGD, and Signum, on 1, 3 and 4 ranks", P, fp64,
                   fp32) {
  const std::vector<double> rates{0.1, 0.1, 0.1, 0.1, 0.1, 0.05};
  const sgd plain{.momentum = 0, .weight_decay = 0.01};
  const auto over = [](double momentum) {
    return [momentum](threads comm) { return majority_vote{comm, {.momentum = momentum}}; };
  };
  if constexpr (std::is_same_v<P, fp64>)  // whose gradients are exactly 0 where they are in Python
    reaches<P>(plain, rates, of_signsgd, over(0));
  reaches<P>(plain, rates, of_signum, over(0.9));
}

TEST_CASE("majority_vote: the majority of the signs, zeros by turns, ties to a rank by turns") {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const std::size_t n : {1u, 2u, 7u, 9u, 63u, 64u, 200u, 1031u})
      for (const double momentum : {0.0, 0.9}) {
        CAPTURE(ranks);
        CAPTURE(n);
        constexpr int steps = 5;
        const auto by_rank = votes(ranks, n, momentum, steps,
                                   [n](int rank, int step) { return noise(rank, step, n); });
        std::vector<std::vector<double>> m(to_size(ranks), std::vector<double>(n));
        std::size_t wrong = 0, ties = 0;
        for (int k = 0; k < steps; ++k) {
          std::vector<std::vector<double>> x;
          for (int r = 0; r < ranks; ++r) x.push_back(noise(r, k, n));
          for (std::size_t i = 0; i < n; ++i) {
            int sum = 0, tie = 0;
            for (int r = 0; r < ranks; ++r) {
              double& own = m[to_size(r)][i];
              own = momentum * own + (1 - momentum) * x[to_size(r)][i];
              const int sign = own > 0 ? 1 : own < 0 ? -1 : k % 2 == 0 ? 1 : -1;
              sum += sign;
              if (r == k % ranks) tie = sign;
            }
            ties += sum == 0 ? 1 : 0;
            const bool padding = n > 64 && i >= 50 && i < 64;
            const double expected = padding ? 0 : sum > 0 || (sum == 0 && tie > 0) ? 1 : -1;
            for (int r = 0; r < ranks; ++r) {
              const vote& v = by_rank[to_size(r)][to_size(k)];
              wrong += v.signs[i] == expected ? 0u : 1u;
              if (k == steps - 1)
                wrong += std::abs(v.momentum[i] - m[to_size(r)][i]) < 1e-15 ? 0u : 1u;
            }
          }
        }
        CHECK(wrong == 0);
        if (n == 1031 && ranks % 2 == 0) CHECK(ties > 100);
      }
}

TEST_CASE("majority_vote: counts of up to 150 votes") {
  random_sequence random(6, purpose::test, 0, 0);
  for (int ranks = 1; ranks <= 150; ++ranks) {
    std::array<int, 64> negative{};
    cordee::detail::comm::vote_counts counts;
    const std::uint64_t tie = 0x5555555555555555u;
    for (int r = 0; r < ranks; ++r) {
      std::uint64_t w = 0;
      for (std::size_t i = 0; i < 64; ++i)
        if (random.uniform() * 64 < static_cast<double>(i))
          w |= std::uint64_t{1} << i, ++negative[i];
      counts.add(w);
    }
    const std::uint64_t out = counts.negative(ranks, tie);
    for (std::size_t i = 0; i < 64; ++i) {
      const bool expected =
          2 * negative[i] == ranks ? (tie >> i & 1) != 0 : 2 * negative[i] > ranks;
      CHECK((out >> i & 1) == (expected ? 1 : 0));
    }
  }
}

TEST_CASE("majority_vote: a minority that votes against all others changes nothing") {
  const auto honest = [](int step) { return noise(0, step, 300); };
  const auto by_rank = votes(7, 300, 0, 4, [&](int rank, int step) {
    auto x = honest(step);
    if (rank % 2 == 1)  // three of seven
      for (double& v : x) v *= -1e6;
    return x;
  });
  for (int k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < 300; ++i) {
      if (i % 3 == 0 || (i >= 50 && i < 64)) continue;  // zeros, and padding
      CHECK(by_rank[0][to_size(k)].signs[i] == (honest(k)[i] > 0 ? 1 : -1));
    }
}

TEST_CASE("majority_vote: a NaN or an infinity of one rank is a NaN on every rank") {
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int ranks : {1, 3, 4}) {
      const auto by_rank = votes(ranks, 1031, 0.9, 1, [&](int rank, int step) {
        auto x = noise(rank, step, 1031);
        if (rank == ranks - 1) x[1030] = wrong;
        return x;
      });
      for (const auto& v : by_rank) {
        CHECK(std::isnan(v[0].signs[1030]));
        if (ranks > 1) CHECK(std::isfinite(v[0].signs[0]));  // another chunk
        CHECK(same_bits(v[0].signs, by_rank[0][0].signs));
      }
    }
}

TEST_CASE("majority_vote: a bit a number each way, and a byte a message") {
  for (const int ranks : {1, 2, 4, 8}) {
    const auto p = to_size(ranks);
    for (const auto& v :
         votes(ranks, 64 * 8, 0, 1, [](int, int) { return std::vector<double>(64 * 8, 1); })) {
      CHECK(v[0].sent.messages == 2 * (p - 1));
      CHECK(v[0].sent.bytes == 2 * (p - 1) * (64 / p + 1));
      CHECK(v[0].sent.rounds == (ranks > 1 ? 2 : 0));
    }
  }
}

TEST_CASE("majority_vote: a skipped step is skipped on all ranks, and clears the momentum") {
  for (const auto& [w, m] : on_ranks(3, [](threads comm) {
         quadratic<fp64> model{};
         if (comm.rank() == 1) model.poisons.push_back({.step = 1, .segment = 2});
         trainer run{model, sgd{.momentum = 0}, [](double) { return 0.1; }, majority_vote{comm}};
         std::array<std::vector<double>, 2> out;
         for (int k = 0; k < 2; ++k) {
           run.step(std::array{one_each(3)}, k);
           if (k == 0) out[0].assign(run.weights().begin(), run.weights().begin() + 193);
         }
         CHECK(std::equal(out[0].begin(), out[0].end(), run.weights().begin()));
         const auto slot = run.reducer_slot(0);
         return std::pair(out[0], std::vector<double>(slot.begin(), slot.begin() + 193));
       }))
    for (const double x : m) CHECK(x == 0);
}

TEST_CASE("majority_vote: describes itself, and refuses a momentum that is none") {
  on_ranks(2, [](threads comm) {
    CHECK(majority_vote{comm}.describe() == "majority of 2 ranks' signs, of momenta 0.9");
    CHECK(majority_vote{comm, {.momentum = 0}}.describe() == "majority of 2 ranks' signs");
    for (const double momentum : {-0.1, 1.0, std::nan("")})
      CHECK(contains(error_message([&] {
                       majority_vote{comm, {momentum}}.check({});
                     }),
                     "majority_vote: .momentum is"));
    return 0;
  });
  CHECK(contains(error_message([] {
                   on_ranks(2, [](threads comm) {
                     quadratic<fp64> model{};
                     trainer run{model, sgd{}, [](double) { return 0.1; },
                                 majority_vote{comm, {.momentum = 1}}};
                     return 0;
                   });
                 }),
                 "majority_vote: .momentum is 1, but must be in [0, 1)"));
}
