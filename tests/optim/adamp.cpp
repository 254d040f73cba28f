// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, through the trainer: tests/train/goldens_adaptive.cpp.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/adamp.hpp>
#include <cordee/testing/optimizer_laws.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/relative.hpp"

using namespace cordee;

static_assert(OptimizerOn<adamp, float, cpu> && OptimizerOn<adamp, double, cpu>);

namespace {

/// Weights after one step, at learning rate 0.01, of a tensor of two rows.
std::vector<double> after(const adamp& optimizer, std::vector<double> w, std::vector<double> g,
                          int rows = 2) {
  const std::size_t n = w.size();
  const std::array table{
      segment{"w", kind::weight, 0, n, {rows, static_cast<int>(n) / rows, 0, 0}}};
  std::vector<double> m(n), v(n);
  optimizer_view<double, cpu, 2> view{
      {w.data(), n}, {g.data(), n}, {{{m.data(), n}, {v.data(), n}}}, table};
  optimizer.accept(view, {.learning_rate = 0.01}, cpu::stream{});
  return w;
}
double norm(const std::vector<double>& x, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("adamp obeys the optimizer laws") {
  CHECK(optimizer_laws(adamp{}) == "");
  CHECK(optimizer_laws(adamp{.beta1 = 0, .beta2 = 0, .weight_decay = 0.1, .nesterov = true}) == "");
}

TEST_CASE("adamp without projection steps as adamw") {
  const auto steps = [](const auto& optimizer) {
    optimizer_fixture<std::remove_cvref_t<decltype(optimizer)>> fixture(optimizer);
    fixture.reset(1);
    for (std::uint64_t k = 0; k < 5; ++k) fixture.set_gradient(k).step(0.01);
    return fixture.weights();
  };
  CHECK(steps(adamp{.weight_decay = 0.1}) == steps(adamw{.weight_decay = 0.1}));
}

// The first step of Adam has elements of one size, lr: along (4, 1) it is orthogonal to (1, -4),
// the gradient, but not to the weights.
TEST_CASE("adamp: rows orthogonal to their gradient keep their norm to first order") {
  const std::vector<double> w{4, 1, 1, 3}, g{1, -4, 3, -1};
  const auto projected = after({}, w, g);
  // The part of the step orthogonal to the row changes its norm by at most lr^2 / |w|.
  for (const std::size_t row : {0u, 2u})
    CHECK(std::abs(norm(projected, row, row + 2) - norm(w, row, row + 2)) < 1e-4);
  const auto plain = after({.delta = 0}, w, g);
  for (const std::size_t row : {0u, 2u})
    CHECK(std::abs(norm(plain, row, row + 2) - norm(w, row, row + 2)) > 1e-3);
}

TEST_CASE("adamp: one row along its gradient turns the projection of all rows off") {
  const std::vector<double> w{4, 1, 1, 3};
  CHECK(after({}, w, {1, -4, 3, 1}) == after({.delta = 0}, w, {1, -4, 3, 1}));
  const std::vector<double> first{1, 3, 4, 1};
  CHECK(after({}, first, {3, 1, 1, -4}) == after({.delta = 0}, first, {3, 1, 1, -4}));
}

TEST_CASE("adamp: the limit of the cosine is that of the numbers of a row") {
  const std::vector<double> w{1, 0, 0, 1}, g{0.06, 1, 1, -0.06};  // 0.1 / sqrt(4) < 0.06
  const auto projected = after({}, w, g);
  CHECK(std::abs(projected[0] - 1) < 1e-9);  // of the whole tensor the step has no part along w
  CHECK(std::abs(projected[3] - 1) < 1e-9);
}

TEST_CASE("adamp: where rows fail, the whole tensor is tested and projected as one row") {
  const std::vector<double> w{2, 0, 0, 1}, g{1, 0, 0, -2};  // parallel by row, orthogonal together
  const auto projected = after({}, w, g);
  CHECK(std::abs(norm(projected, 0, 4) - norm(w, 0, 4)) < 1e-4);
  CHECK(std::abs(norm(projected, 0, 2) - norm(w, 0, 2)) > 1e-3);
}

TEST_CASE("adamp: a projected tensor gets a tenth of the decay, a vector is not projected") {
  const std::vector<double> w{4, 1, 1, 3}, g{1, -4, 3, -1};
  const auto decay = [&](const adamp& with, const adamp& without, int rows) {
    return 1 - after(with, w, g, rows)[0] / after(without, w, g, rows)[0];
  };
  // Of 4 the decay takes 0.01 * decay * 4, of weights that the step itself moved by less than 0.01.
  CHECK(decay({.weight_decay = 1}, {}, 2) == support::relative(0.001, 1e-2));
  CHECK(decay({.weight_decay = 1, .delta = 0}, {.delta = 0}, 2) == support::relative(0.01, 1e-2));
}

TEST_CASE("adamp: norms below epsilon count as epsilon, and norms beyond a double do no harm") {
  const std::vector<double> along{1, 0, 0, 1}, tiny{1e-12, 0, 0, 1e-12};
  CHECK(after({}, tiny, along) != after({.delta = 0}, tiny, along));  // a cosine of 1e-4
  CHECK(after({}, along, tiny) != after({.delta = 0}, along, tiny));
  const std::vector<double> huge(6, 1.7e308);
  for (const double w : after({}, huge, {1, 1, -2, 1, 1, -2})) CHECK(std::isfinite(w));
}

TEST_CASE("adamp: huge gradients, and a first moment without a second one, leave finite steps") {
  optimizer_fixture<adamp, float> nesterov(adamp{.nesterov = true});
  nesterov.reset(1);
  const auto before = nesterov.weights();
  nesterov.set_gradient(1, 1e37f).step(0.01);  // of which every element counts as the largest
  const auto moved = nesterov.weights();
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(std::abs(moved[i] - before[i]) <= 0.01 * 1.91);  // 0.9 + 1
  optimizer_fixture<adamp, float> forgetful(adamp{.beta2 = 0, .epsilon = 1e-30});
  forgetful.reset(1).set_gradient(1, 1e30f).step(0.01);
  forgetful.set_gradient(1, 0).step(0);  // infinity times 0
  for (const float x : forgetful.state()) CHECK(std::isfinite(x));
}

TEST_CASE("adamp: rows longer than a chunk, and any number of workers, give the same bits") {
  constexpr std::size_t length = 40'001, n = 3 * length;
  const std::array table{segment{"w", kind::weight, 0, n, {3, 40'001, 0, 0}}};
  const auto step = [&](int workers) {
    std::vector<double> w(n), g(n), m(n), v(n);
    for (std::size_t i = 0; i < n; ++i) {
      w[i] = std::sin(static_cast<double>(i));
      g[i] = std::cos(static_cast<double>(i));
    }
    cpu device(workers);
    const auto s = device.make_stream();
    optimizer_view<double, cpu, 2> view{
        {w.data(), n}, {g.data(), n}, {{{m.data(), n}, {v.data(), n}}}, table};
    adamp{.delta = 300}.accept(view, {.learning_rate = 0.01}, s);
    return w;
  };
  const auto one = step(1);
  CHECK(one == step(3));
  // The step is orthogonal to each row: |w'|^2 = |w|^2 + |step|^2, where |step|^2 <= length lr^2.
  for (std::size_t first = 0; first < n; first += length) {
    double before = 0;
    for (std::size_t i = first; i < first + length; ++i)
      before += std::sin(static_cast<double>(i)) * std::sin(static_cast<double>(i));
    const double after_step = norm(one, first, first + length) * norm(one, first, first + length);
    CHECK(after_step >= before);
    CHECK(after_step - before <= 1.001e-4 * length);
  }
}

TEST_CASE("adamp describes every option and refuses those out of range") {
  CHECK(adamp{.weight_decay = 0.1, .nesterov = true, .decay_on = {}}.describe() ==
        "adamp (Nesterov), betas 0.9 and 0.999, epsilon 1e-08, decoupled weight decay 0.1, times "
        "0.1 where the step is projected, delta 0.1; decays nothing");
  const auto refusal = [](const adamp& a) { return support::error_message([&] { a.check(); }); };
  CHECK(refusal({.beta1 = 1}) == "adamp: beta1 is 1, but must be in [0, 1)");
  CHECK(refusal({.delta = -1}) == "adamp: delta is -1, but must be finite and 0 or more");
  CHECK(refusal({.decay_ratio = std::nan("")}) ==
        "adamp: decay_ratio is nan, but must be finite and 0 or more");
}
