// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/checks/pairing.hpp>

#include "tests/support/ranks.hpp"
#include "tests/train/goldens_mixing.hpp"

using namespace cordee;
using namespace support;
using detail::train::Compatible;

static_assert(OptimizerOn<zero_one_adam, float, cpu> && zero_one_adam::slots == 3);
static_assert(!Compatible<zero_one_adam, sharded<ring<threads>>>);
static_assert(!Compatible<zero_one_adam, majority_vote<threads>>);
static_assert(!Compatible<zero_one_adam, gossip<threads, topologies::one_peer>>);

namespace {

const by_ranks of_zero_one_adam{
    {{0.410076610024, -0.0474187881437, 0.348991347864, -0.25052468305, 0.0899166242203,
      -0.150567896677, 0.649162836288, -1.56735405142, -0.00191141436536}},
    {{-0.21415659772, -0.0144768054456, 0.440652152768, -0.268944997112, 0.205807394358,
      -0.136920135668, 0.668399786362, -1.62755958063, -0.0553327134778},
     {-0.195059466754, -0.000797480593814, 0.444365559965, -0.260443579264, 0.23203325943,
      -0.128440220195, 0.676906567097, -1.62290870928, -0.00191141436536},
     {-0.175962335788, 0.012881844258, 0.448078967163, -0.251942161416, 0.258259124501,
      -0.119960304721, 0.685413347832, -1.61825783794, 0.0515098847471}},
    {{-0.425491692132, -0.13813130763, 0.435766220548, -0.275330732614, 0.0729415511117,
      -0.147090305362, 0.688307220631, -1.61755304345, -0.082043363034},
     {-0.401086860636, -0.124417335728, 0.439482278174, -0.26680445602, 0.0975526260909,
      -0.13859487163, 0.696789497866, -1.61289276202, -0.0286220639216},
     {-0.37668202914, -0.110703363826, 0.4431983358, -0.258278179425, 0.12216370107,
      -0.130099437898, 0.705271775102, -1.60823248059, 0.0247992351909},
     {-0.352277197644, -0.0969893919241, 0.446914393427, -0.249751902831, 0.146774776049,
      -0.121604004166, 0.713754052338, -1.60357219916, 0.0782205343033}}};

const zero_one_adam short_run{.weight_decay = 0.01,
                              .var_freeze_step = 5,
                              .var_update_scaler = 2,
                              .local_step_scaler = 3,
                              .local_step_clipper = 3};

constexpr auto by_signs = [](threads comm) {
  return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 0};
};

step_info at_step(std::int64_t step) { return {.step = step}; }

template <class P>
struct step_trace {
  bool exchanged;
  std::vector<typename P::master> weights, m, a, residual;
};

/// Steps 0 .. n - 1 of ranks whose optima differ.
template <class P, class Make>
auto traced(int ranks, const zero_one_adam& optimizer, int n, const Make& make,
            const std::vector<poison>& poisons = {}) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
    if (comm.rank() == 1) model.poisons = poisons;
    trainer run{model, optimizer, [](double) { return 0.01; }, make(comm), {.bucket_bytes = 512}};
    std::vector<step_trace<P>> steps;
    const auto copy = [](const auto& x) {
      return std::vector<typename P::master>(x.data, x.data + 256);
    };
    for (int k = 0; k < n; ++k) {
      const std::int64_t round = run.state().progress.round;
      run.step(std::array{one_each(ranks)}, k);
      std::vector<typename P::master> residual;
      if constexpr (decltype(make(comm))::slots > 0) residual = copy(run.reducer_slot(0));
      steps.push_back({run.state().progress.round > round, copy(run.weights()), copy(run.slot(0)),
                       copy(run.slot(2)), residual});
    }
    return steps;
  });
}

template <class O>
std::string refusal(const O& optimizer) {
  return error_message([&] { optimizer.check(); });
}

}  // namespace

TEST_CASE("zero_one_adam, six common steps and eleven local ones, on 1, 3 and 4 ranks") {
  std::vector<double> rates(6, 0.01);
  while (rates.size() < 17) rates.push_back(rates.size() % 2 == 0 ? 0.002 : 0.001);
  reaches<fp64>(short_run, rates, of_zero_one_adam, by_signs);
}

TEST_CASE("zero_one_adam: the steps of updates and exchanges are those of DeepSpeed's counters") {
  for (const std::int64_t var_scaler : {1, 2, 3, 16})
    for (const std::int64_t step_scaler : {1, 3, 5})
      for (const std::int64_t clipper : {1, 3, 4, 16}) {
        const zero_one_adam optimizer{.var_freeze_step = 70,
                                      .var_update_scaler = var_scaler,
                                      .local_step_scaler = step_scaler,
                                      .local_step_clipper = clipper};
        std::int64_t var_interval = 1, var_counter = 0, local_interval = 1, local_counter = 0;
        for (std::int64_t t = 1; t <= 200; ++t) {
          CAPTURE(t);
          const step_info info = at_step(t - 1);
          if (t - 1 <= 70) {
            const bool due = t % var_interval == 0;
            CHECK(optimizer.updates_variance(info) == due);
            CHECK(optimizer.exchanges(info));
            if (due && ++var_counter == var_scaler) var_counter = 0, var_interval *= 2;
          } else {
            CHECK_FALSE(optimizer.updates_variance(info));
            CHECK(optimizer.exchange_interval(info) == local_interval);
            CHECK(optimizer.exchanges(info) == (t % local_interval == 0));
            if (++local_counter == step_scaler)
              local_counter = 0, local_interval = std::min(clipper, 2 * local_interval);
          }
        }
      }
}

TEST_CASE("zero_one_adam: intervals at the ends of their ranges") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const zero_one_adam wide{
      .var_freeze_step = 0, .local_step_scaler = 1, .local_step_clipper = most};
  CHECK(wide.exchange_interval(at_step(60)) == std::int64_t{1} << 59);
  CHECK(wide.exchange_interval(at_step(500)) == most);
  const zero_one_adam endless{.var_freeze_step = most, .var_update_scaler = most};
  CHECK(endless.updates_variance(at_step(1'000'000)));
  CHECK_FALSE(endless.discards_residuals(at_step(0)));
}

TEST_CASE("zero_one_adam obeys the optimizer laws, before and after v stays") {
  CHECK(optimizer_laws(zero_one_adam{.weight_decay = 0.1}) == "");
  CHECK(optimizer_laws(zero_one_adam{.weight_decay = 0.1, .var_freeze_step = 0}) == "");
  CHECK(optimizer_laws(zero_one_adam{.weight_decay = 0.1,
                                     .var_freeze_step = 0,
                                     .var_update_scaler = 1,
                                     .local_step_scaler = 1,
                                     .local_step_clipper = 4},
                       {.zero_learning_rate_moves_nothing = false}) == "");
}

TEST_CASE("zero_one_adam that exchanges each step exactly is one_bit_adam") {
  // u / S is the mean of beta1 m + (1 - beta1) g_i: some roundings apart in a hundredth of 1.
  const std::vector<double> rates{0.01, 0.01, 0.01, 0.01, 0.01, 0.005, 0.005};
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto zero_one = trained<fp64>(
        ranks, zero_one_adam{.weight_decay = 0.1, .var_freeze_step = 2, .var_update_scaler = 100},
        rates, over_mean);
    const auto one_bit =
        trained<fp64>(ranks, one_bit_adam{.weight_decay = 0.1, .start_epoch = 3}, rates, over_mean);
    for (std::size_t i = 0; i < one_bit[0].size(); ++i)
      CHECK(close(zero_one[0][i], one_bit[0][i], 1e-12));
  }
}

TEST_CASE("zero_one_adam: over an exact mean an exchange leaves the mean of the ranks' own steps") {
  // Without a limit of the interval in reach the ranks of a second run never meet after the first
  // local step; the first run's exchange two steps later leaves the mean of their weights.
  zero_one_adam often{.weight_decay = 0.1,
                      .var_freeze_step = 2,
                      .var_update_scaler = 100,
                      .local_step_scaler = 1,
                      .local_step_clipper = 2},
      seldom = often;
  seldom.local_step_clipper = 1000;
  for (const int ranks : {2, 3, 5}) {
    const auto met = traced<fp64>(ranks, often, 6, over_mean),
               apart = traced<fp64>(ranks, seldom, 6, over_mean);
    REQUIRE_FALSE(met[0][4].exchanged);
    REQUIRE(met[0][5].exchanged);
    REQUIRE_FALSE(apart[0][5].exchanged);
    for (std::size_t i = 0; i < 256; ++i) {
      double mean = 0;
      for (const auto& rank : apart) mean += rank[5].weights[i] / ranks;
      CHECK(close(met[0][5].weights[i], mean, 1e-13));
    }
  }
}

TEST_CASE("zero_one_adam: ranks differ between exchanges, and have the same bits after each") {
  for (const int ranks : {2, 3, 4}) {
    const auto by_rank = traced<fp32>(ranks, short_run, 18, by_signs);
    for (std::size_t k = 0; k < 18; ++k) {
      CAPTURE(k);
      const bool exchanged = short_run.exchanges(at_step(static_cast<std::int64_t>(k)));
      for (const auto& rank : by_rank) {
        CHECK(rank[k].exchanged == exchanged);
        CHECK(same_bits(rank[k].a, by_rank[0][k].a));
      }
      CHECK(same_bits(by_rank[1][k].weights, by_rank[0][k].weights) == exchanged);
      CHECK(same_bits(by_rank[1][k].m, by_rank[0][k].m) == exchanged);
      if (k > 5 && exchanged) CHECK(same_bits(by_rank[0][k].a, by_rank[0][k].weights));
    }
  }
}

TEST_CASE("zero_one_adam: an exact step leaves the residual, the first local one discards it") {
  const auto steps = traced<fp64>(3, short_run, 7, by_signs)[0];
  const std::vector<double> none(256);
  CHECK(steps[1].residual == none);        // two variance steps
  CHECK_FALSE(steps[2].residual == none);  // of a compressed gradient
  CHECK(steps[3].residual == steps[2].residual);
  CHECK_FALSE(steps[4].residual == steps[3].residual);
  // The residual of the first sum of steps is of its size, a hundredth of a gradient's.
  double gradients = 0, sums = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    gradients = std::max(gradients, std::abs(steps[5].residual[i]));
    sums = std::max(sums, std::abs(steps[6].residual[i]));
  }
  CHECK(sums < gradients / 10);
}

TEST_CASE("zero_one_adam: a rank whose gradient is not finite exchanges zero or its older steps") {
  // Steps 1 and 2 are common, exact and compressed; 7 and 10 local, with an exchange and without.
  for (const int bad : {1, 2, 7, 10}) {
    CAPTURE(bad);
    const auto by_rank = traced<fp32>(3, short_run, 18, by_signs, {{bad, 1}});
    const auto at = static_cast<std::size_t>(bad);
    CHECK(by_rank[1][at].exchanged == (bad != 10));
    for (std::size_t k = 0; k < 18; ++k)
      for (const auto& rank : by_rank) {
        CHECK(same_bits(rank[k].a, by_rank[0][k].a));
        if (rank[k].exchanged) CHECK(same_bits(rank[k].weights, by_rank[0][k].weights));
        for (const float w : rank[k].weights) CHECK(std::isfinite(w));
      }
  }
}

TEST_CASE("zero_one_adam: two_stage leaves the choice of exact steps to the optimizer") {
  const auto message = [](double start_epoch) {
    return error_message([&] {
      on_ranks(2, [&](threads comm) {
        quadratic<fp64> model{};
        trainer run{model, zero_one_adam{}, [](double) { return 0.01; },
                    two_stage{ring{comm}, gathered{comm, scaled_sign{}}, start_epoch}};
        return 0;
      });
    });
  };
  CHECK(message(0) == "");
  CHECK(contains(message(1), "two_stage::start_epoch must be 0"));
}

TEST_CASE("zero_one_adam refuses options out of range") {
  CHECK(contains(refusal(zero_one_adam{.beta1 = 1}), "beta1"));
  CHECK(contains(refusal(zero_one_adam{.beta2 = -0.1}), "beta2"));
  CHECK(contains(refusal(zero_one_adam{.epsilon = 0}), "epsilon"));
  CHECK(contains(refusal(zero_one_adam{.weight_decay = -1}), "weight_decay"));
  CHECK(contains(refusal(zero_one_adam{.var_freeze_step = -1}), "var_freeze_step"));
  CHECK(contains(refusal(zero_one_adam{.var_update_scaler = 0}), "var_update_scaler"));
  CHECK(contains(refusal(zero_one_adam{.local_step_scaler = 0}), "local_step_scaler"));
  CHECK(contains(refusal(zero_one_adam{.local_step_clipper = 0}), "local_step_clipper"));
}
