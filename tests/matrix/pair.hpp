// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rule and a reducer, tried on a small network for twenty steps. Reducers of a kind are one type
// here, so that there is a trainer to compile for each rule and kind.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/consensus.hpp>
#include <cordee/comm/reducer.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/trainer.hpp>

#include "cell.hpp"
#include "learner.hpp"

namespace matrix {

/// What a trainer asks of a reducer, whichever it is.
template <class Link, agreement Offers, bool Lossless, int Slots>
struct some_reducer {
  using link_type = Link;
  static constexpr agreement offers = Offers;
  static constexpr bool lossless = Lossless;
  static constexpr int slots = Slots;

  Link link;
  std::function<std::size_t(std::size_t)> room;
  std::function<void(message<float, cpu, Slots>, const moment&)> product;
  std::function<double(consensus)> growth{};
  std::function<std::vector<std::string>(consensus)> remedies{};

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return room(n);
  }
  void mix(message<float, cpu, Slots> m, const moment& now, cpu::stream) const { product(m, now); }
  [[nodiscard]] double radius(consensus c) const
    requires(Offers == agreement::mixing)
  {
    return growth(c);
  }
};

template <class R>
auto some(const R& r) {
  static_assert(ReducerOn<R, float, cpu>);
  if constexpr (BeginsOn<R, float, cpu>) {
    return r;  // the one of its kind
  } else {
    some_reducer<typename R::link_type, R::offers, R::lossless, R::slots> any{
        r.link, [r](std::size_t n) { return r.template scratch<float>(n); },
        [r](const auto& m, const moment& now) { r.mix(m, now, cpu::stream{}); }};
    if constexpr (Gossips<R>) {
      any.growth = [r](consensus c) { return r.radius(c); };
      any.remedies = [r](consensus c) { return r.remedies(c); };
    }
    return any;
  }
}

/// What makes a reducer of a link.
template <class R>
using maker = std::function<R(typename R::link_type)>;
template <class Link = threads, class Make>
auto over(const Make& make) {
  using R = decltype(some(make(std::declval<Link>())));
  return maker<R>([make](Link link) { return some(make(link)); });
}

/// The trainer's refusals, in the order in which it makes them; refused.cpp has one of each.
template <class O, class R>
constexpr char refusal() {
  if (R::offers != agreement::exact && O::needs == agreement::exact) return 'a';
  if (!R::lossless && O::needs != agreement::exact) return 'b';
  return R::offers < O::needs ? 'c' : ' ';
}

/// The mean loss of the agreed weights over everybody's images.
template <class Run>
double agreed_loss(Run& run, const batch<cpu>& mine) {
  return run.with_mean_model([&] {
    run.model().forward(run.image(), run.weights(), mine, phase::evaluate, run.compute());
    std::array<double, 1> sums{run.model().read_score(run.compute()).loss};
    agree(run.link(), sums, sum{});
    return sums[0] / static_cast<double>(mine.global);
  });
}

/// Twenty steps, each rank with images of its own; rank 0 says what was wrong, if anything was.
template <class O, class R>
cell attempt(const O& rule, const R& reducer, double rate) {
  learner model(reducer.link.rank(), reducer.link.size());
  const std::array mine{model.images()};
  const auto constantly = [rate](double) { return rate; };
  std::optional<trainer<learner, O, decltype(constantly), R>> run;
  try {
    run.emplace(model, rule, constantly, reducer, trainer_options{.bucket_bytes = 2048});
  } catch (const error& e) {  // on every rank alike: nothing was sent before
    return {cell::outcome::not_constructed, ' ', e.what()};
  }
  const double before = agreed_loss(*run, mine[0]);
  for (int k = 0; k < 20; ++k)
    if (!run->step(mine, k).applied) return {cell::outcome::broken, ' ', "a step was skipped"};
  const double after = agreed_loss(*run, mine[0]);
  if (!(std::isfinite(after) && after < before))
    return {cell::outcome::broken, ' ', text("the loss went from ", before, " to ", after)};
  const double apart = run->consensus_distance();
  const bool together = O::needs == agreement::exact;  // the means have rounded, no more
  if (!(together ? apart < 1e-6 : std::isfinite(apart)))
    return {cell::outcome::broken, ' ', text("the ranks are ", apart, " apart")};
  return {cell::outcome::runs, ' ', {}};
}

/// The cell of a rule and what `make` makes of a link: four ranks in threads, or one alone.
template <class O, class R>
cell pair(const O& rule, double rate, const maker<R>& make) {
  static_assert(Agrees<O, R> == (refusal<O, R>() == ' '), "the trainer and Agrees differ");
  if constexpr (!Agrees<O, R>) {
    return {cell::outcome::not_compiled, refusal<O, R>(), {}};
  } else {
    try {
      cell found;
      const auto run = [&](typename R::link_type link) {
        const cell own = attempt(rule, make(link), rate);
        if (link.rank() == 0) found = own;
      };
      if constexpr (std::is_same_v<typename R::link_type, threads>)
        threads::launch(4, run);
      else
        run({});
      return found;
    } catch (const std::exception& e) {
      return {cell::outcome::broken, ' ', e.what()};
    }
  }
}

}  // namespace matrix
