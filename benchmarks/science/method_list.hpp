// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The methods of bench_science_methods: each one's learning rates, optimizer and schedule.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "benchmarks/science/method_runs.hpp"

namespace science {

/// The learning rate for a batch, from that for the reference batch.
enum class rule { linear, root };

inline double scaled_rate(rule r, const task& t) {
  const double k = static_cast<double>(t.batch) / reference_batch;
  return t.rate * (r == rule::linear ? k : std::sqrt(k));
}

template <class E>
struct method {
  std::string name;
  std::vector<double> rates;
  std::function<double(const E&, const task&)> accuracy;
};
template <class E>
std::vector<method<E>> all_methods() {
  const auto steps = [](const E& e, const task& t) {
    return warmup{e.p.warmup_epochs,
                  multistep{scaled_rate(rule::linear, t), {e.p.epochs / 2, 0.75 * e.p.epochs}}};
  };
  const auto decay = [](const E& e, rule r, const task& t, double power) {
    return warmup{e.p.warmup_epochs, polynomial{scaled_rate(r, t), e.p.epochs, power}};
  };
  constexpr sgd momentum_sgd{.momentum = 0.9, .weight_decay = 1e-4};
  const std::vector of_sgd{0.01, 0.04, 0.16};
  const std::vector of_adamw{0.001, 0.004, 0.016};
  constexpr int all_ranks = 0;
  const auto on_shards = [=](const auto& optimizer, int batch_norm_over, const auto&... topology) {
    return [=](const E& e, const task& t) {
      return e.on_shards(t, optimizer, steps(e, t), batch_norm_over, topology...);
    };
  };
  const auto by_lars = [=](const auto& optimizer, double power, double warmup_share = 1) {
    return [=](const E& e, const task& t) {
      const polynomial decay{scaled_rate(rule::root, t), e.p.epochs, power};
      return e.on_one(t, optimizer, warmup{warmup_share * e.p.warmup_epochs, decay});
    };
  };
  return {
      {"sgd", of_sgd,
       [=](const E& e, const task& t) { return e.on_one(t, momentum_sgd, steps(e, t)); }},
      {"sgd_polynomial", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, decay(e, rule::linear, t, 2));
       }},
      {"lars", {0.5, 2, 8}, by_lars(lars{}, 2)},
      {"lamb",
       {0.001, 0.004, 0.016},
       [=](const E& e, const task& t) { return e.on_one(t, lamb{}, decay(e, rule::root, t, 1)); }},
      {"legw", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(
             t, momentum_sgd,
             legw{e.p.legw_epochs, polynomial{t.rate, e.p.epochs, 2}, reference_batch, t.batch});
       }},
      {"legw_constant", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd,
                         legw{e.p.legw_epochs, constant{t.rate}, reference_batch, t.batch});
       }},
      {"auto_wu",
       {0.25, 1, 4},
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd,
                         auto_wu{.epochs = e.p.epochs, .max_learning_rate = t.rate});
       }},
      {"local", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, local_steps{momentum_sgd, e.p.period}, steps(e, t));
       }},
      {"post_local", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, local_steps{momentum_sgd, e.p.period, e.p.epochs / 2}, steps(e, t));
       }},
      {"dmsgd", of_sgd, on_shards(local_steps{momentum_sgd, 1}, 1)},
      {"decentlam", of_sgd,
       on_shards(decentlam{.weight_decay = 1e-4, .momentum_correction = false}, 1)},
      {"qg_dmsgd", of_sgd, on_shards(qg_dmsgd{.weight_decay = 1e-4}, 1)},
      {"dmsgd_synced", of_sgd, on_shards(local_steps{momentum_sgd, 1}, all_ranks)},
      {"decentlam_synced", of_sgd,
       on_shards(decentlam{.weight_decay = 1e-4, .momentum_correction = false}, all_ranks)},
      {"qg_dmsgd_synced", of_sgd, on_shards(qg_dmsgd{.weight_decay = 1e-4}, all_ranks)},
      {"adamw", of_adamw,
       [=](const E& e, const task& t) { return e.on_one(t, adamw{}, decay(e, rule::root, t, 1)); }},
      {"muon",
       {0.005, 0.02, 0.08},
       [=](const E& e, const task& t) {
         return e.on_one(t, muon{adamw{}, {.weight_decay = 0.01, .learning_rate_factor = 0.2}},
                         decay(e, rule::root, t, 1));
       }},
      {"diloco", of_adamw,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, outer_momentum{local_steps{adamw{}, e.p.period}},
                           decay(e, rule::root, t, 1));
       }},
      {"ada_scale",
       {0.16, 0.64},
       [=](const E& e, const task& t) {
         const double end = e.p.epochs / 2, k = static_cast<double>(t.batch) / reference_batch;
         const multistep small{t.rate, {end / 2, 0.75 * end}};
         return e.on_scale_invariant("ada_scale", t, momentum_sgd, ada_scale{small, k}, end);
       }},
      {"schedule_free",
       {0.1, 0.4, 1.6},
       [=](const E& e, const task& t) {
         const schedule_free_sgd optimizer{.weight_decay = 1e-4};
         return e.on_one(t, optimizer,
                         warmup{e.p.warmup_epochs, constant{scaled_rate(rule::linear, t)}});
       }},
      {"look_sam", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, steps(e, t), {.radius = 0.05, .period = 5});
       }},
      {"power_sgd", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, momentum_sgd, steps(e, t), [](threads comm) {
           return power_sgd{ring{comm}, {.rank = 2}};
         });
       }},
      // One change each, to find the cause of a difference.
      {"lars_trust_10", {0.05, 0.2, 0.8}, by_lars(lars{.trust_coefficient = 0.01}, 2)},
      {"lars_trust_100", {0.005, 0.02, 0.08}, by_lars(lars{.trust_coefficient = 0.1}, 2)},
      {"lars_no_weight_decay", {0.5, 2, 8}, by_lars(lars{.weight_decay = 0}, 2)},
      {"lars_more_weight_decay", {0.5, 2, 8}, by_lars(lars{.weight_decay = 1e-3}, 2)},
      {"lars_adapts_all", {0.5, 2, 8}, by_lars(lars{.adapt_on = detail::core::trainable}, 2)},
      {"lars_lr_outside", {0.5, 2, 8}, by_lars(lars_lr_outside{}, 2)},
      {"lars_nesterov", {0.5, 2, 8}, by_lars(lars{.nesterov = true}, 2)},
      {"lars_linear", {0.5, 2, 8}, by_lars(lars{}, 1)},
      {"lars_linear_trust_10", {0.05, 0.2, 0.8}, by_lars(lars{.trust_coefficient = 0.01}, 1)},
      {"lars_short_warmup", {0.5, 2, 8}, by_lars(lars{}, 2, 1.0 / 3)},
      {"lars_long_warmup", {0.5, 2, 8}, by_lars(lars{}, 2, 3)},
      {"sgd_linear", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, decay(e, rule::linear, t, 1));
       }},
      {"dmsgd_complete", of_sgd,
       on_shards(local_steps{momentum_sgd, 1}, 1, topologies::complete{})},
      {"qg_dmsgd_complete", of_sgd,
       on_shards(qg_dmsgd{.weight_decay = 1e-4}, 1, topologies::complete{})},
      {"qg_dmsgd_smoothing_0.5", of_sgd,
       on_shards(qg_dmsgd{.smoothing = 0.5, .weight_decay = 1e-4}, 1)},
      {"sam", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, steps(e, t), {.radius = 0.05});
       }},
      {"look_sam_without_reuse", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, steps(e, t), {.radius = 0.05, .period = 5, .reuse = 0});
       }},
      {"look_sam_less_reuse", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd, steps(e, t), {.radius = 0.05, .period = 5, .reuse = 0.1});
       }},
      {"local_adamw", of_adamw,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, local_steps{adamw{}, e.p.period}, decay(e, rule::root, t, 1));
       }},
      {"power_sgd_8", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_ranks(t, momentum_sgd, steps(e, t), [](threads comm) {
           return power_sgd{ring{comm}, {.rank = 8, .min_compression_rate = 1}};
         });
       }},
      {"sgd_constant", of_sgd,
       [=](const E& e, const task& t) {
         return e.on_one(t, momentum_sgd,
                         warmup{e.p.warmup_epochs, constant{scaled_rate(rule::linear, t)}});
       }},
  };
}

}  // namespace science
