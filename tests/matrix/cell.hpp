// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One cell of the matrix: a rule and a reducer, tried on a quadratic for twenty steps. Reducers of
// a kind are one type here, so that there is a trainer to compile for each rule and kind.
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
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

namespace matrix {

using namespace cordee;

/// What became of a pairing. The words are the table's; `why` names a sentence of the legend.
struct cell {
  enum class outcome { runs, not_compiled, not_constructed, broken } what = outcome::broken;
  char kind = ' ';  // of what does not compile: which of the library's sentences says so
  std::string why;  // of the others
};

/// A precision on a device, with one pair of rule and reducer for each of `exchanges`.
struct precision_row {
  std::string name;
  std::vector<cell> cells;
};
extern const std::vector<std::string> exchanges;
std::vector<precision_row> precision_rows();

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
    if constexpr (Gossips<R>) any.growth = [r](consensus c) { return r.radius(c); };
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

/// The sum over ranks of the loss of the agreed weights, on each rank's own data.
template <class Run, class Model>
double agreed_loss(Run& run, Model& model) {
  return run.with_mean_model([&] {
    model.forward(run.image(), run.weights(), support::one_each(run.link().size()), phase::evaluate,
                  run.compute());
    std::array<double, 1> sums{model.read_score(run.compute()).loss};
    agree(run.link(), sums, sum{});
    return sums[0];
  });
}

/// Twenty steps, each rank with data of its own; rank 0 says what was wrong, if anything was.
template <class O, class R>
cell attempt(const O& rule, const R& reducer, double rate) {
  const int rank = reducer.link.rank(), ranks = reducer.link.size();
  support::quadratic<fp32> model;
  model.shift = 0.1 * (rank - (ranks - 1) / 2.0);
  const auto constantly = [rate](double) { return rate; };
  using run_type = trainer<support::quadratic<fp32>, O, decltype(constantly), R>;
  std::optional<run_type> run;
  try {
    run.emplace(model, rule, constantly, reducer, trainer_options{.bucket_bytes = 768});
  } catch (const error& e) {  // on every rank alike: nothing was sent before
    const std::string said = e.what();
    return {cell::outcome::not_constructed, ' ', said.substr(0, said.find(". "))};
  }
  const double before = agreed_loss(*run, model);
  const std::array one{support::one_each(ranks)};
  for (int k = 0; k < 20; ++k)
    if (!run->step(one, k).applied) return {cell::outcome::broken, ' ', "a step was skipped"};
  const double after = agreed_loss(*run, model);
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
