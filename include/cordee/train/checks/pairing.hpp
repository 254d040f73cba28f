// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which optimizers and reducers can be combined, and what the compiler reports for the others.
//
//   R::offers >= O::needs          loose < mixing < exact; exact if differences are exchanged
//   a reducer that rounds (compressed) averages gradients only, since rounding errors of weights
//   are as large as the differences between ranks that gossip is to remove
//   majority_vote leaves signs of gradients, whose magnitude is the learning rate; differences of
//   weights have their own
//   one_bit_adam and one_bit_lamb have an exact mean in their warm-up, whose end is that of the
//   reducer's two_stage; zero_one_adam in steps of its choice, and two_stage then has no warm-up
//   sharded divides the update of each tensor among ranks, which an optimizer must allow
#pragma once

#include <type_traits>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/error.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/preconditioner.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Why a pair is rejected; the first that applies.
enum class pairing_error {
  none,
  gradients_not_averaged,
  weights_rounded,
  magnitudes_lost,
  mixing_not_doubly_stochastic,
  exact_steps_rounded,
  momentum_not_divisible,
  update_not_divisible
};

/// Whether the optimizer, or one inside it, exchanges differences of weights (outer_momentum).
template <class O>
consteval bool exchanges_differences() {
  if constexpr (requires { requires O::proposes_differences; })
    return true;
  else if constexpr (requires(const O o) { o.optimizer; })
    return exchanges_differences<std::remove_cvref_t<decltype(O::optimizer)>>();
  else
    return false;
}

template <class R>
concept IsTwoStage = requires(const R r) {
  r.compressed;
  r.start_epoch;
};

/// Throws usage_error if the optimizer's warm-up ends in another epoch than the reducer's.
template <class O, class R>
void expect_same_stages([[maybe_unused]] const O& optimizer, [[maybe_unused]] const R& reducer) {
  if constexpr (!optim::compresses_momentum<O>() || !IsTwoStage<R>)
    return;
  else if constexpr (requires(step_info info) { optimizer.exchanges_exactly(info); })
    expects(reducer.start_epoch == 0,
            "trainer: with zero_one_adam two_stage::start_epoch must be 0: the optimizer chooses "
            "which steps have an exact mean");
  else if constexpr (requires { requires O::compresses_momentum; })
    expects(
        optimizer.start_epoch == reducer.start_epoch,
        "trainer: the optimizer's start_epoch must be that of the reducer's two_stage: gradients "
        "are averaged exactly before it, momenta compressed from there on");
  else
    expect_same_stages(optimizer.optimizer, reducer);
}

template <class O, class R>
struct pairing {
  static consteval bool refuses_parts() {
    if constexpr (comm::ShardsUpdate<R>)
      return !divides_update<O>();
    else
      return false;
  }
  static constexpr bool averages_gradients =
      O::needs == agreement::exact || exchanges_differences<O>();
  static constexpr bool rounds_exact_steps =
      optim::compresses_momentum<O>() && !R::lossless && !IsTwoStage<R>;
  static constexpr bool loses_magnitudes =
      requires { requires R::signs_only; } && O::needs != agreement::exact;
  static constexpr pairing_error error =
      R::offers != agreement::exact && averages_gradients ? pairing_error::gradients_not_averaged
      : !R::lossless && !averages_gradients               ? pairing_error::weights_rounded
      : loses_magnitudes                                  ? pairing_error::magnitudes_lost
      : R::offers < O::needs            ? pairing_error::mixing_not_doubly_stochastic
      : rounds_exact_steps              ? pairing_error::exact_steps_rounded
      : !refuses_parts()                ? pairing_error::none
      : optim::compresses_momentum<O>() ? pairing_error::momentum_not_divisible
                                        : pairing_error::update_not_divisible;
};

/// Whether the optimizer works over the reducer.
template <class O, class R>
concept Compatible = pairing<O, R>::error == pairing_error::none;

/// A compile error that names the remedy, unless Compatible<O, R>.
template <class O, class R>
struct require_compatible {
  static constexpr pairing_error error = pairing<O, R>::error;
  static_assert(error != pairing_error::gradients_not_averaged,
                "this optimizer averages gradients, and every rank must receive their exact mean: "
                "use an exact reducer such as ring, wrap the optimizer in local_steps, or choose "
                "decentlam");
  static_assert(error != pairing_error::weights_rounded,
                "this optimizer averages weights, whose differences between ranks are lost in a "
                "reducer that rounds: use a lossless reducer, or an optimizer that averages "
                "gradients");
  static_assert(error != pairing_error::magnitudes_lost,
                "majority_vote leaves signs, and this optimizer exchanges differences of weights, "
                "whose magnitudes are its step: use compressed or gathered, or an optimizer that "
                "averages gradients");
  static_assert(error != pairing_error::mixing_not_doubly_stochastic,
                "this optimizer needs one multiplication by a doubly stochastic matrix per step: "
                "use gossip or an exact reducer, or wrap the optimizer in local_steps");
  static_assert(error != pairing_error::update_not_divisible,
                "sharded divides the update of each tensor among the ranks: use an optimizer that "
                "averages gradients and steps on each number alone or by norms of tensors. adamp "
                "needs whole rows, kfac the whole gradient, muon whole matrices; local_steps and "
                "optimizers of neighbours have other weights on each rank");
  static_assert(error != pairing_error::momentum_not_divisible,
                "sharded divides the update of each tensor among the ranks, and one_bit_adam, "
                "one_bit_lamb and zero_one_adam make their next exchange of the whole momentum: "
                "use them over two_stage, or adamw or lamb over sharded");
  static_assert(error != pairing_error::exact_steps_rounded,
                "the exact steps of optimizers that exchange momenta need two_stage{ring{comm}, "
                "reducer, start_epoch} around the compressed reducer");
  static_assert(!optim::UpdatesOnHost<O> || (R::slots == 0 && !comm::ShardsUpdate<R>),
                "on_host: a reducer's own memory would stay on the GPU, and sharded keeps a rank's "
                "part there: use a reducer without residuals, and the one inside sharded");
  static constexpr bool holds = true;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
