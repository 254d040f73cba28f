// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors on T4, whose W1 and W2 are matrices here, by tests/support/optimizer_goldens.py.
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/train/muon/muon.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"
#include "tests/support/shaped.hpp"
#include "tests/train/resumed_difference.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<muon<adamw>, float, cpu> && OptimizerOn<muon<sgd>, double, cpu>);

namespace {

template <int Rows1, int Rows2>
constexpr auto table_of = [] {
  auto t = t4_table;
  t[0].shape = {Rows1, 4 / Rows1, 0, 0};
  t[2].shape = {Rows2, 2 / Rows2, 0, 0};
  return t;
}();
template <int Rows1, int Rows2>
struct matrices : quadratic<fp64> {
  static constexpr std::span<const segment> segments() { return table_of<Rows1, Rows2>; }
};

/// All weights of each rank after steps at learning rates 0.1, 0.1, 0.05.
template <class Model, class O>
auto trained(int ranks, const O& optimizer) {
  return on_ranks(ranks, [&](threads comm) {
    Model model;
    model.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1));
    trainer run{model, optimizer, learning_rates({0.1, 0.1, 0.05}), ring{comm}};
    for (int k = 0; k < 3; ++k) run.step(std::array{one_each(ranks)}, k);
    std::vector<double> all;
    for (std::size_t k = 0; k < 4; ++k)
      for (const double w : numbers(run.weights(), k)) all.push_back(w);
    return all;
  });
}
template <class Model, class O>
void reaches(const O& optimizer, const std::vector<double>& expected) {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank = trained<Model>(ranks, optimizer);
    for (const auto& weights : by_rank) {
      CHECK(weights == by_rank[0]);  // no rank rounds another's matrices otherwise
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(weights[i]);
        CHECK(close(weights[i], expected[i], 1e-10));
      }
    }
  }
}

}  // namespace

TEST_CASE("muon reaches its golden vectors, its matrices divided among ranks or not") {
  reaches<matrices<2, 1>>(
      muon{adamw{}, {.first_layer = "", .classifier = ""}},
      {0.381117341254, -0.117912031062, 0.628036448912, 0.0087667484687, 0.170721687009,
       -0.0418731190001, 0.845443641645, -1.83647800383, -0.0259317778673});
  reaches<matrices<4, 2>>(
      muon{adamw{.weight_decay = 0},
           {.momentum = 0.5,
            .weight_decay = 0,
            .nesterov = false,
            .steps = 7,
            .scale_by = muon_scale::match_rms_adamw,
            .first_layer = "",
            .classifier = "W2"}},
      {0.496638580808, -0.286655526927, 0.740403550687, 0.0605703287199, 0.170721687009,
       -0.0418731190001, 0.758126893921, -1.75302935549, -0.0259317778673});
}

TEST_CASE("muon, divided among ranks, goes on from planes and state with equal bits") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto differences = on_ranks(ranks, [&](threads comm) {
      const muon optimizer{adamw{}, {.first_layer = "", .classifier = ""}};
      const auto rate = [](double) { return 0.1; };
      using model_type = matrices<2, 1>;
      using run_type = trainer<model_type, muon<adamw>, decltype(rate), ring<threads>>;
      std::deque<model_type> models;
      const auto make = [&] {
        models.emplace_back();
        models.back().shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1));
        return std::make_unique<run_type>(models.back(), optimizer, rate, ring{comm});
      };
      const auto train = [&](run_type& run, int k) {
        return run.step(std::array{one_each(ranks)}, k);
      };
      return resumed_difference(make, train, 3, 4);
    });
    for (const std::string& text : differences) CHECK(text == "");
  }
}

TEST_CASE("muon obeys the optimizer laws") {
  CHECK(optimizer_laws(shaped{muon{adamw{}, {.first_layer = "", .classifier = ""}}}) == "");
  CHECK(optimizer_laws(shaped{
            muon{sgd{}, {.nesterov = false, .first_layer = "stem", .classifier = "one"}}}) == "");
}

TEST_CASE("muon: each scale is a factor of the update by the matrix's sides") {
  const auto step = [](muon_scale by, int rows, int columns) {
    const auto n = static_cast<std::size_t>(rows * columns);
    std::vector<double> w(n), g(n, 1.0), m(n);
    const std::array table{segment{"w", kind::weight, 0, n, {rows, columns, 0, 0}}};
    optimizer_view<double, cpu, 1> view{{w.data(), n}, {g.data(), n}, {{{m.data(), n}}}, table};
    muon{sgd{}, {.scale_by = by}}.accept(view, {.learning_rate = 1}, cpu::stream{});
    return w[0] * std::sqrt(static_cast<double>(n));  // of a rank-one matrix of equal numbers
  };
  const double one = step(muon_scale::original, 1, 6);
  CHECK(std::abs(one) > 0.5);
  const auto is = [&](double x, double factor) { CHECK(close(x, factor * one, 1e-12)); };
  is(step(muon_scale::original, 6, 1), std::sqrt(6.0));
  is(step(muon_scale::original, 2, 3), 1);
  is(step(muon_scale::spectral_unclamped, 2, 3), std::sqrt(2.0 / 3));
  is(step(muon_scale::match_rms_adamw, 2, 3), 0.2 * std::sqrt(3.0));
}

TEST_CASE("muon: the optimizer inside has its own factor of the learning rate") {
  const auto with = [](double factor) {
    return trained<matrices<2, 1>>(
        1, muon{sgd{.momentum = 0},
                {.learning_rate_factor = factor, .first_layer = "W1", .classifier = ""}})[0];
  };
  const auto none = with(0), plain = with(1);
  for (std::size_t i = 0; i < 4; ++i) CHECK(none[i] == t4_start[0][i]);
  CHECK(plain[0] != none[0]);
  for (std::size_t i = 6; i < 8; ++i) CHECK(plain[i] == none[i]);  // W2 is a matrix
}

TEST_CASE("muon refuses options, and names that the model does not have") {
  CHECK_THROWS_AS((muon{sgd{}, {.momentum = 1}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{}, {.weight_decay = -1}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{}, {.steps = 0}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{}, {.steps = 100}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{}, {.epsilon = 0}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{}, {.learning_rate_factor = -1}}.check()), usage_error);
  CHECK_THROWS_AS((muon{sgd{.momentum = 2}}.check()), usage_error);
  const auto refusal = [](const auto& optimizer, std::span<const segment> table) {
    return message_of<usage_error>([&] { optimizer.check_segments(table); });
  };
  CHECK(refusal(muon{sgd{}}, table_of<2, 1>) ==
        "muon: first_layer: no trainable parameter's name begins with \"conv1.\"; names begin as "
        "\"W1\". Name the layer, or set it to \"\" where there is none");
  CHECK(refusal(muon{sgd{}, {.first_layer = "W1", .classifier = "fc."}}, table_of<2, 1>)
            .starts_with("muon: classifier: no "));
  CHECK(refusal(muon{sgd{}, {.first_layer = "W1", .classifier = "W2"}}, table_of<2, 1>)
            .starts_with("muon: no trainable parameter is a matrix of its own"));
  CHECK(refusal(muon{sgd{}, {.first_layer = "W1", .classifier = ""}}, table_of<2, 1>) == "");
}

TEST_CASE("muon describes every option") {
  CHECK(muon{sgd{.momentum = 0.5}, {.steps = 3, .classifier = "head."}}.describe() ==
        "muon, momentum 0.95 (Nesterov), 3 Newton-Schulz steps, epsilon 1e-07, scale original, "
        "decoupled weight decay 0.1; \"conv1.\", \"head.\" and vectors at 1 times the learning "
        "rate: " +
            sgd{.momentum = 0.5}.describe());
}
