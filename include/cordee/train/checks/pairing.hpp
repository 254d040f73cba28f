// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which optimizers and reducers can be combined, and what the compiler reports for the others.
//
//   R::offers >= O::needs          loose < mixing < exact
//   a reducer that rounds (compressed) averages gradients only, since rounding errors of weights
//   are as large as the differences between ranks that gossip is to remove
#pragma once

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Why a pair is rejected; the first that applies.
enum class pairing_error {
  none,
  gradients_not_averaged,
  weights_rounded,
  mixing_not_doubly_stochastic
};

template <class O, class R>
struct pairing {
  static constexpr pairing_error error =
      R::offers != agreement::exact && O::needs == agreement::exact
          ? pairing_error::gradients_not_averaged
      : !R::lossless && O::needs != agreement::exact ? pairing_error::weights_rounded
      : R::offers < O::needs                         ? pairing_error::mixing_not_doubly_stochastic
                                                     : pairing_error::none;
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
  static_assert(error != pairing_error::mixing_not_doubly_stochastic,
                "this optimizer needs one multiplication by a doubly stochastic matrix per step: "
                "use gossip or an exact reducer, or wrap the optimizer in local_steps");
  static constexpr bool holds = true;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
