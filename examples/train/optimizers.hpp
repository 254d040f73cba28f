// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The optimizers, chosen when the program runs. Those of one list have the same slots and are one
// type, with which each network's trainer is compiled once: a trainer takes seconds to compile, an
// optimizer more in a list next to none.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include <cordee/cordee.hpp>

#include "settings.hpp"

namespace train {

using namespace cordee;

template <class O>
concept Adapts = requires(const O& o, kind what) { o.adapt_on(what); };
template <class O, class... X>
concept HasRatio = requires(const O& o, X... x) { o.ratio(x...); };

/// One of several optimizers. Those of an exact mean have norms of all segments, also where the one
/// that was chosen needs none: a pass over weights and gradient.
template <class... O>
struct chosen_optimizer {
  static constexpr agreement needs = std::tuple_element_t<0, std::tuple<O...>>::needs;
  static constexpr bool exact = needs == agreement::exact;
  static constexpr bool eager = (cordee::detail::optim::is_eager<O> && ...);
  static constexpr int slots = std::tuple_element_t<0, std::tuple<O...>>::slots;
  static constexpr norms_needed norms = exact ? norms_needed::before_accept : norms_needed::never;
  static_assert(((O::needs == needs && O::slots == slots) && ...));

  std::variant<O...> method;
  double max_norm = 0;  // of the gradient, where the mean is exact; 0: not clipped

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return std::visit([&](const auto& o) { return cordee::detail::optim::proposal(o, v, info, s); },
                      method);
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    visit([&](const auto& o) { o.accept(v, info, s); });
  }
  [[nodiscard]] cordee::momentum_form momentum_form() const
    requires(!exact)
  {
    return std::visit([](const auto& o) { return o.momentum_form(); }, method);
  }
  void check() const {
    visit([](const auto& o) { o.check(); });
  }
  [[nodiscard]] std::string describe() const {
    return visit([](const auto& o) { return o.describe(); });
  }

  // What the logs show: how far the gradient was clipped, and the trust ratios.
  [[nodiscard]] std::optional<double> clip_factor(double norm) const
    requires exact
  {
    if (max_norm > 0) return clip{sgd{}, max_norm}.clip_factor(norm);
    return {};
  }
  struct form {
    static constexpr bool norm_of_sum = false;
  };
  double weight_decay = 0;
  [[nodiscard]] bool decay_on(kind what) const {
    return std::visit([&](const auto& o) { return o.decay_on(what); }, method);
  }
  [[nodiscard]] bool adapt_on(kind what) const
    requires(Adapts<O> || ...)
  {
    const auto adapts = [&](const auto& o) {
      if constexpr (Adapts<std::remove_cvref_t<decltype(o)>>)
        return o.adapt_on(what);
      else
        return false;
    };
    return std::visit(adapts, method);
  }
  template <class... X>
  [[nodiscard]] double ratio(X... x) const
    requires(HasRatio<O, X...> || ...)
  {
    const auto of = [&](const auto& o) {
      if constexpr (HasRatio<std::remove_cvref_t<decltype(o)>, X...>)
        return o.ratio(x...);
      else
        return 1.0;
    };
    return std::visit(of, method);
  }

 private:
  // f of the optimizer that steps: the chosen one, or that with its gradient clipped.
  template <class F>
  auto visit(const F& f) const {
    return std::visit(
        [&](const auto& o) {
          if constexpr (exact)
            if (max_norm > 0) return f(clip{o, max_norm});
          return f(o);
        },
        method);
  }
};

using momentum_optimizer = chosen_optimizer<sgd, lars, larc>;
using moments_optimizer = chosen_optimizer<adam, adamw, lamb, lambc, rmsprop, rmsprop_warmup>;
using gossip_optimizer = chosen_optimizer<decentlam, qg_dmsgd>;

/// f(the optimizer of the settings), of one of the lists above.
template <class F>
int with_optimizer(const settings& s, const F& f) {
  const double decay = s.weight_decay;
  const auto momentum = [&](const auto& o) { return f(momentum_optimizer{o, s.clip_norm, decay}); };
  const auto moments = [&](const auto& o) { return f(moments_optimizer{o, s.clip_norm, decay}); };
  const auto of_adam = [&](auto o) {
    o.beta1 = s.momentum;
    o.beta2 = s.beta2;
    o.weight_decay = decay;
    return moments(o);
  };
  const auto of_lars = [&](auto o) {
    o.momentum = s.momentum;
    o.weight_decay = decay;
    o.trust_coefficient = s.trust_coefficient;
    o.nesterov = s.nesterov;
    return momentum(o);
  };
  if (s.optimizer == "decentlam")
    return f(gossip_optimizer{
        decentlam{.momentum = s.momentum, .weight_decay = decay, .nesterov = s.nesterov}});
  if (s.optimizer == "qg_dmsgd")
    return f(gossip_optimizer{qg_dmsgd{.momentum = s.momentum, .weight_decay = decay}});
  if (s.optimizer == "lars") return of_lars(lars{});
  if (s.optimizer == "larc") return of_lars(larc{});
  if (s.optimizer == "adam") return of_adam(adam{});
  if (s.optimizer == "adamw") return of_adam(adamw{});
  if (s.optimizer == "lamb") return of_adam(lamb{});
  if (s.optimizer == "lambc") return of_adam(lambc{});
  if (s.optimizer == "rmsprop")
    return moments(rmsprop{.momentum = s.momentum, .weight_decay = decay});
  if (s.optimizer == "rmsprop_warmup")  // in place of the learning rate's warm-up
    return moments(rmsprop_warmup{
        .momentum = s.momentum, .center = s.warmup, .period = s.warmup / 2, .weight_decay = decay});
  return momentum(sgd{.momentum = s.momentum, .weight_decay = decay, .nesterov = s.nesterov});
}

}  // namespace train
