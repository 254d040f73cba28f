// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Planes and run_state are all that a trainer carries from step to step: copied to another trainer,
// both go on with equal bits.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/adapt_while_combine.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/qg_dmsgd.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/rmsprop_warmup.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/muon/muon.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/shaped.hpp"
#include "tests/support/small_network.hpp"
#include "tests/train/continues.hpp"
#include "tests/train/resumed_difference.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Any optimizer of four slots at most as one type: a trainer over a reducer is compiled once for
/// all of them.
struct any_optimizer {
  static constexpr agreement needs = agreement::exact;
  static constexpr int slots = 4;
  static constexpr norms_needed norms = norms_needed::before_accept;

  std::function<void(const optimizer_view<float, cpu, slots>&, const step_info&)> step;

  template <class O>
  static any_optimizer of(const O& optimizer) {
    return {[optimizer](const optimizer_view<float, cpu, slots>& v, const step_info& info) {
      optimizer_view<float, cpu, O::slots> own{v.weights,
                                               v.grads,
                                               {},
                                               v.segments,
                                               v.squared_weight_norms,
                                               v.squared_grad_norms,
                                               v.squared_global_norm,
                                               v.sums,
                                               v.finite,
                                               v.info};
      std::copy_n(v.slots.begin(), O::slots, own.slots.begin());
      optimizer.accept(own, info, cpu::stream{});
    }};
  }
  void accept(const optimizer_view<float, cpu, slots>& v, const step_info& info,
              cpu::stream) const {
    step(v, info);
  }
};

template <class O>
void any_continues_exactly(const std::string& name, const O& optimizer) {
  continues_exactly(name, any_optimizer::of(optimizer));
}

}  // namespace

// A trainer of its own type for one optimizer of each kind; the others as one type.
TEST_CASE("run_state: momentum optimizers go on with equal bits") {
  continues_exactly("sgd", sgd{.momentum = 0.9});
  any_continues_exactly("velocity_sgd", velocity_sgd{.momentum = 0.9, .momentum_correction = true});
  any_continues_exactly("clip{sgd}", clip{sgd{.momentum = 0.9}, 0.5});
}
TEST_CASE("run_state: forms of LARS go on with equal bits") {
  any_continues_exactly("lars", lars{.trust_coefficient = 0.02});
  any_continues_exactly("lars_norm_of_sum", lars_norm_of_sum{.trust_coefficient = 0.02});
  any_continues_exactly("lars_lr_outside", lars_lr_outside{.trust_coefficient = 0.02});
  any_continues_exactly("lars_unscaled", lars_unscaled{.trust_coefficient = 0.02});
  any_continues_exactly("larc", larc{});
  any_continues_exactly("larc without clip", larc{.limits = {.clip = false}});
}
TEST_CASE("run_state: optimizers of Adam's family go on with equal bits") {
  continues_exactly("adamw", adamw{});
  any_continues_exactly("adamp", adamp{.delta = 1});
  any_continues_exactly("lion", lion{});
  any_continues_exactly("adan", adan{});
  for (const int ranks : {1, 2, 3})
    continues<fp32>(
        "one_bit_adam", one_bit_adam{.start_epoch = 4},
        [](threads comm) {
          return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 4};
        },
        {}, ranks);
  for (const int ranks : {1, 2, 3})
    for (const std::int64_t freeze : {1, 3, 4, 8})  // the second run begins with step 5
      continues<fp32>(
          "zero_one_adam",
          zero_one_adam{.weight_decay = 0.01,
                        .var_freeze_step = freeze,
                        .var_update_scaler = 2,
                        .local_step_scaler = 2,
                        .local_step_clipper = 4},
          [](threads comm) {
            return two_stage{ring{comm}, gathered{comm, scaled_sign{}}, 0};
          },
          {{3, 1}}, ranks);
  any_continues_exactly("lans", lans{});
  any_continues_exactly("schedule_free_sgd", schedule_free_sgd{.warmup_steps = 4});
  any_continues_exactly("schedule_free_adamw", schedule_free_adamw{});
  any_continues_exactly("muon", shaped{muon{adamw{}, {.first_layer = "W1", .classifier = ""}}});
  any_continues_exactly("lamb", lamb{});
  any_continues_exactly("nvlamb", nvlamb{});
  any_continues_exactly("lambc", lambc{});
  any_continues_exactly("deepspeed_lamb", deepspeed_lamb{});
}
TEST_CASE("run_state: adam and the forms of RMSprop go on with equal bits") {
  any_continues_exactly("adam", adam{});
  any_continues_exactly("rmsprop", rmsprop{.momentum = 0.9});
  any_continues_exactly("centered_rmsprop", centered_rmsprop{.momentum = 0.9});
  any_continues_exactly("rmsprop_warmup", rmsprop_warmup{.center = 6, .period = 4});
  any_continues_exactly("rmsprop_warmup, slope 2",
                        rmsprop_warmup{.center = 6, .period = 4, .slope = 2});
}
TEST_CASE("run_state: averages of weights, slow weights and groups go on with equal bits") {
  for (const int ranks : {1, 2, 3}) {
    continues<fp32>("exponential_average", weight_average{sgd{}, exponential_average{0.5}},
                    make_ring, {{3, 1}}, ranks);
    continues<fp32>("stochastic_average",
                    weight_average{local_steps{sgd{}, 2}, stochastic_average{2, 2}}, make_ring,
                    {{3, 1}}, ranks);
    continues<fp32>("parameter_groups", parameter_groups{sgd{}, parameter_group{"b", sgd{}, 2}},
                    make_ring, {{3, 1}}, ranks);
  }
  continues_exactly("lookahead{sgd}", lookahead{sgd{}, 3});
}
TEST_CASE("run_state: gossip, whose matching depends on the round, goes on with equal bits") {
  const auto check = [](const std::string& name, const auto& optimizer) {
    for (const int ranks : {2, 4}) continues<fp32>(name, optimizer, make_gossip, {{3, 1}}, ranks);
  };
  for (const int ranks : {1, 3})
    continues<fp32>("decentlam", decentlam{.momentum = 0.5}, make_one_peer, {{3, 1}}, ranks);
  check("decentlam", decentlam{.momentum = 0.5});
  check("decentlam_over{lamb}", decentlam_over{lamb{.beta1 = 0.5}});
  check("qg_dmsgd", qg_dmsgd{.momentum = 0.5});
  check("adapt_while_combine{sgd}", adapt_while_combine{sgd{}});
  check("decentlam_over{lars}", decentlam_over{lars{.momentum = 0.5, .trust_coefficient = 0.02}});
}
TEST_CASE(
    "run_state: every optimizer in local steps goes on with equal bits, by gossip and server") {
  const auto check = [](const std::string& name, const auto& optimizer) {
    const any_optimizer any = any_optimizer::of(optimizer);
    continues<fp32>(name + " over gossip", local_steps{any, 3}, make_gossip, {{3, 1}});
    continues<fp32>(name + " in fragments",
                    outer_momentum{local_steps{any, 4}, {.fragments = 2, .fragment_numbers = 128}},
                    make_ring, {{3, 1}});
    continues<fp32>(name + " in outer steps", outer_momentum{local_steps{any, 2}}, make_ring,
                    {{3, 1}});
    continues<fp32>(name + " over a server", local_steps{any, 2}, make_lockstep, {{3, 1}});
  };
  check("sgd", sgd{.momentum = 0.9});
  check("velocity_sgd", velocity_sgd{.momentum = 0.9, .momentum_correction = true});
  check("clip{sgd}", clip{sgd{.momentum = 0.9}, 0.5});
  check("lars", lars{.trust_coefficient = 0.02});
  check("lars_lr_outside", lars_lr_outside{.trust_coefficient = 0.02});
  check("lars_unscaled", lars_unscaled{.trust_coefficient = 0.02});
  check("adamw", adamw{});
  check("lamb", lamb{});
  check("nvlamb", nvlamb{});
}
TEST_CASE("run_state: an asynchronous server in lockstep goes on with equal bits") {
  continues<fp64>("adamw, in fp64", local_steps{adamw{}, 2}, make_lockstep);
}
TEST_CASE("run_state: the loss scale and its streak go on after an overflow") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  continues<fp16>("sgd", sgd{.momentum = 0.9}, make_ring, {{3, 1, infinity}});
  continues<fp16>("local sgd, whose ranks have scales of their own",
                  local_steps{sgd{.momentum = 0.9}, 2}, make_ring, {{3, 1, infinity}});
}

TEST_CASE("run_state: steps in a row that were skipped go on to be counted") {
  const auto message = error_message([&] {
    quadratic<fp64> model{.poisons = {{2, 0}, {3, 0}, {4, 0}}};
    const auto make = [&] {
      return trainer{model, sgd{}, slow_start, solo{}, {.max_nonfinite_steps = 3}};
    };
    auto first = make();
    for (int k = 0; k < 4; ++k) first.step(std::array{one_each(1)}, k);
    CHECK(first.state().progress.nonfinite_steps == 2);
    auto second = make();
    second.restore(first.state());
    second.step(std::array{one_each(1)}, 4);
  });
  CHECK(contains(message, "3 steps in a row had a gradient with a NaN"));
}

TEST_CASE("run_state: batch norms that froze before do not freeze again") {
  struct freezing : quadratic<fp64> {
    double freeze_batch_norm_at = 3;
  };
  const auto by_rank = on_ranks(2, [&](threads comm) {
    using run_type = trainer<freezing, sgd, decltype(slow_start), ring<threads>>;
    std::deque<freezing> models;
    const auto make = [&] {
      return std::make_unique<run_type>(models.emplace_back(), sgd{}, slow_start, ring{comm});
    };
    // Rank 1 has no samples in odd steps, so that the ranks' statistics differ.
    const auto train = [&](run_type& run, int k) {
      const std::array both{one_each(2)};
      const std::span<const batch<cpu>> all = both;
      return run.step(all.first(comm.rank() == 1 && k % 2 == 1 ? 0 : 1), k);
    };
    return resumed_difference(make, train, 4, 3);
  });
  for (const std::string& text : by_rank) CHECK(text == "");
}

TEST_CASE("run_state: int8, with ranges of a percentile, goes on with equal bits") {
  const auto by_rank = on_ranks(2, [&](threads comm) {
    using net = resnet<8, int8, cpu, small>;
    using run_type = trainer<net, sgd, decltype(steady), ring<threads>>;
    std::deque<net> nets;
    std::int64_t seed = 0;
    const auto make = [&] {
      nets.emplace_back().quantization.percentile = 99;
      return std::make_unique<run_type>(nets.back(), sgd{}, steady, ring{comm},
                                        trainer_options{.seed = static_cast<unsigned>(seed++)});
    };
    auto feed = feed_of(comm);
    const auto train = [&](run_type& run, int k) {
      feed.seek(k);
      return run.step(feed.next(), 0);
    };
    return resumed_difference(make, train, 3, 3);
  });
  for (const std::string& text : by_rank) CHECK(text == "");
}

TEST_CASE("run_state: an adaptive schedule shows its numbers, through wrappers too") {
  struct halving {
    std::array<double, 1> factor{1};
    double operator()(double) const { return 0.1 * factor[0]; }
    void observe(const observation&) { factor[0] /= 2; }
    std::span<double> state() { return factor; }
  };
  static_assert(detail::schedule::HasScheduleState<warmup<halving>>);
  static_assert(!detail::schedule::HasScheduleState<decltype(slow_start)>);
  quadratic<fp64> model;
  trainer run{model, sgd{}, warmup{0, halving{}}, solo{}};
  detail::schedule::observe(run.schedule(), observation{0, 1});
  CHECK(run.state().schedule == std::vector<double>{0.5});
  trainer other{model, sgd{}, warmup{0, halving{}}, solo{}};
  other.restore(run.state());
  CHECK(other.schedule()(0) == 0.05);
  trainer plain{model, sgd{}, warmup{0, slow_start}, solo{}};
  CHECK(plain.state().schedule.empty());
  CHECK(contains(error_message([&] { other.restore(plain.state()); }),
                 "the saved schedule has 0 numbers of state, this one has 1"));
}
