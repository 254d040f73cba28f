// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/trust_ratio_quantiles.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using cordee::detail::train::quantiles, cordee::detail::train::quantiles_of;
using namespace support;

namespace {

/// The records of `steps` steps of T4 on rank 0; rank r's centers are T4's plus r.
template <class Optimizer, class MakeReducer>
std::vector<step_record> records(int ranks, const Optimizer& optimizer, const MakeReducer& reducer,
                                 std::vector<poison> poisons = {}, double epochs = 0.2) {
  struct recorder {
    std::vector<step_record>* records;
    void step(const step_record& r) { records->push_back(r); }
  };
  std::vector<step_record> out;
  on_ranks(ranks, [&](threads comm) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank(), .poisons = poisons};
    trainer run{model, optimizer, constant{0.01}, reducer(comm)};
    toy_loader feed{.rank_count = ranks};
    run.fit(feed, epochs, recorder{&out});
    return 0;
  });
  return out;
}
const auto over_ring = [](threads comm) { return ring{comm}; };
const auto over_gossip = [](threads comm) { return gossip{comm, topologies::ring{}}; };

double norm_of_weights(std::size_t k) {
  double square = 0;
  for (std::size_t i = 0; i < t4_table[k].size; ++i) square += t4_start[k][i] * t4_start[k][i];
  return std::sqrt(square);
}
/// Of the gradient of the first step, of segment k, where the centers are T4's plus `shift`.
double norm_of_gradient(std::size_t k, double shift) {
  double square = 0;
  for (std::size_t i = 0; i < t4_table[k].size; ++i) {
    const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i] - shift);
    square += g * g;
  }
  return std::sqrt(square);
}
/// LARS's of segment k in the first step, of a gradient that is multiplied by `factor`.
double lars_ratio(std::size_t k, double shift, double factor = 1) {
  const double w = norm_of_weights(k);
  return 0.02 * w / (factor * norm_of_gradient(k, shift) + 0.1 * w);
}
constexpr lars with_decay{.weight_decay = 0.1, .trust_coefficient = 0.02};

// Sums of at most four squares, and a mean of three ranks' gradients.
constexpr double rounding = 1e-14;

void check_two(const std::optional<quantiles>& q, double one, double other) {
  REQUIRE(q.has_value());
  const double low = std::min(one, other), high = std::max(one, other);
  CHECK(close(q->min, low, rounding));
  CHECK(close(q->first_quartile, low + (high - low) / 4, rounding));
  CHECK(close(q->median, (low + high) / 2, rounding));
  CHECK(close(q->third_quartile, high - (high - low) / 4, rounding));
  CHECK(close(q->max, high, rounding));
}

}  // namespace

TEST_CASE("quantiles: of one number, of numbers in any order, between two by interpolation") {
  const quantiles one = quantiles_of({7});
  CHECK(one.min == 7);
  CHECK(one.first_quartile == 7);
  CHECK(one.max == 7);
  const quantiles q = quantiles_of({8, 1, 2, 16, 4});
  CHECK(q.min == 1);
  CHECK(q.first_quartile == 2);
  CHECK(q.median == 4);
  CHECK(q.third_quartile == 8);
  CHECK(q.max == 16);
  const quantiles between = quantiles_of({0, 8, 4, 20});  // numpy.quantile has the same
  CHECK(between.first_quartile == 3);
  CHECK(between.median == 6);
  CHECK(between.third_quartile == 11);
}

TEST_CASE("trust ratios: of LARS and its wrapper clip, those of the mean gradient") {
  for (const int ranks : {1, 3}) {
    const double shift = 0.5 * (ranks - 1);
    check_two(records(ranks, with_decay, over_ring).at(0).trust_ratios, lars_ratio(0, shift),
              lars_ratio(2, shift));
    double square = 0;
    for (std::size_t k = 0; k < 4; ++k) square += std::pow(norm_of_gradient(k, shift), 2);
    const double factor = 0.5 / (std::sqrt(square) + 1e-6);
    check_two(records(ranks, clip{with_decay, 0.5}, over_ring).at(0).trust_ratios,
              lars_ratio(0, shift, factor), lars_ratio(2, shift, factor));
  }
}

TEST_CASE("trust ratios: of LARC at most 1, of LARS by the norm of the sum those of the sum") {
  // The learning rate is 0.01, which the ratio of W2 exceeds and that of W1 does not.
  const larc limited{.weight_decay = 0.1, .trust_coefficient = 0.02, .adapt_on = kind::weight};
  const double rates[] = {lars_ratio(0, 0), lars_ratio(2, 0)};
  for (const double coefficient : {0.02, 0.01}) {
    larc optimizer = limited;
    optimizer.trust_coefficient = coefficient;
    optimizer.epsilon = 0;
    const auto rate = [&](int k) { return std::min(1.0, coefficient / 0.02 * rates[k] / 0.01); };
    check_two(records(1, optimizer, over_ring).at(0).trust_ratios, rate(0), rate(1));
  }
  const lars_norm_of_sum of_sum{.weight_decay = 0.1, .trust_coefficient = 0.02};
  std::vector<double> ratios;
  for (const std::size_t k : {std::size_t{0}, std::size_t{2}}) {
    double square = 0;
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i]);
      square += std::pow(g + 0.1 * t4_start[k][i], 2);
    }
    ratios.push_back(0.02 * norm_of_weights(k) / std::sqrt(square));
  }
  check_two(records(1, of_sum, over_ring).at(0).trust_ratios, ratios[0], ratios[1]);
}

TEST_CASE("trust ratios: of parameter groups, those of each segment's group, where it moves") {
  lars half = with_decay;
  half.trust_coefficient = 0.01;
  const std::string_view w1 = t4_table[0].name;
  const auto ratios_of = [](const auto& optimizer) {
    return records(1, optimizer, over_ring).at(0).trust_ratios;
  };
  const parameter_groups groups{with_decay, parameter_group{w1, half, 3}};
  check_two(ratios_of(groups), lars_ratio(0, 0) / 2, lars_ratio(2, 0));
  check_two(ratios_of(local_steps{groups, 4}), lars_ratio(0, 0) / 2, lars_ratio(2, 0));
  const parameter_groups still{with_decay, parameter_group{w1, half, 0}};
  check_two(ratios_of(still), lars_ratio(2, 0), lars_ratio(2, 0));
  // LARC's are limited to the group's learning rate.
  const larc limited{.weight_decay = 0.1, .trust_coefficient = 0.02, .adapt_on = kind::weight};
  check_two(ratios_of(parameter_groups{limited, parameter_group{w1, limited, 0.01}}), 1,
            std::min(1.0, lars_ratio(2, 0) / 0.01));
}

TEST_CASE("trust ratios: of LAMB, those of the direction") {
  const lamb optimizer{.weight_decay = 0.1};
  std::vector<double> ratios;
  for (const std::size_t k : {std::size_t{0}, std::size_t{2}}) {
    double square = 0;  // of the direction: the corrected moments of the first step are g and g^2
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      const double g = t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i]);
      const double u = g / (std::abs(g) + optimizer.epsilon) + 0.1 * t4_start[k][i];
      square += u * u;
    }
    ratios.push_back(norm_of_weights(k) / std::sqrt(square));
  }
  check_two(records(1, optimizer, over_ring).at(0).trust_ratios, ratios[0], ratios[1]);
}

TEST_CASE("trust ratios: where each rank has its own, the means of the ranks' quantiles") {
  quantiles sum;
  for (int rank = 0; rank < 3; ++rank) {
    const quantiles own = quantiles_of({lars_ratio(0, rank), lars_ratio(2, rank)});
    sum.min += own.min / 3;
    sum.median += own.median / 3;
    sum.max += own.max / 3;
  }
  for (const auto& all : {records(3, local_steps{with_decay, 4}, over_ring),
                          records(3, decentlam_over{with_decay}, over_gossip)}) {
    const auto q = all.at(0).trust_ratios;
    REQUIRE(q.has_value());
    CHECK(close(q->min, sum.min, rounding));
    CHECK(close(q->median, sum.median, rounding));
    CHECK(close(q->max, sum.max, rounding));
  }
}

TEST_CASE("trust ratios: absent of other optimizers, and of an update that was skipped") {
  CHECK_FALSE(records(2, sgd{}, over_ring).at(0).trust_ratios.has_value());
  const auto all = records(2, with_decay, over_ring, {{1, 0}}, 0.3);
  CHECK(all.at(0).trust_ratios.has_value());
  CHECK_FALSE(all.at(1).trust_ratios.has_value());
  CHECK(all.at(2).trust_ratios.has_value());
}

TEST_CASE("norms of gradients: each tensor's, of the mean or its own, with the trust ratio") {
  const auto step = [](threads comm, const auto& optimizer, trainer_options options,
                       const auto& f) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, optimizer, constant{0.01}, ring{comm}, options};
    toy_loader feed{.rank_count = comm.size()};
    run.fit(feed, 0.1);
    std::size_t k = 0;
    run.for_gradient_norms([&](const segment& s, double norm, std::optional<double> ratio) {
      CHECK(s.name == t4_table[k].name);
      f(k++, norm, ratio);
    });
    CHECK(k == 4);
  };
  const auto expect = [](double shift, double factor, bool adapts) {
    return [=](std::size_t k, double norm, std::optional<double> ratio) {
      CHECK(close(norm, factor * norm_of_gradient(k, shift), rounding));
      CHECK(ratio.has_value() == (adapts && k % 2 == 0));  // W1 and W2
      if (ratio) CHECK(close(*ratio, lars_ratio(k, shift, factor), rounding));
    };
  };
  for (const int ranks : {1, 3, 5})
    on_ranks(ranks, [&](threads comm) {
      const double mean = 0.5 * (ranks - 1);
      double square = 0;
      for (std::size_t k = 0; k < 4; ++k) square += std::pow(norm_of_gradient(k, mean), 2);
      step(comm, with_decay, {}, expect(mean, 1, true));
      step(comm, clip{with_decay, 0.5}, {}, expect(mean, 0.5 / (std::sqrt(square) + 1e-6), true));
      step(comm, sgd{}, {}, expect(mean, 1, false));
      step(comm, local_steps{with_decay, 4}, {}, expect(comm.rank(), 1, true));
      step(comm, sgd{}, {.check_finite = false},
           [](std::size_t, double norm, std::optional<double> ratio) {
             CHECK(std::isnan(norm));
             CHECK_FALSE(ratio.has_value());
           });
      return 0;
    });
}
