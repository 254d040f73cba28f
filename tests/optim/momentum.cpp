// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Each rule's own form of it: tests/optim/sgd.cpp, lars.cpp, decentlam.cpp.
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/lanewise.hpp>
#include <cordee/optim/momentum.hpp>

#include "tests/support/planes.hpp"

using namespace cordee;

namespace {

struct one_number {
  std::array<double, 1> w{2}, g{3}, u{0.5};

  [[nodiscard]] view<double, cpu, 1> seen() {
    return {{w.data(), 1}, {g.data(), 1}, {span_on<double, cpu>{u.data(), 1}}, {}};
  }
};

}  // namespace

TEST_CASE("a heavy ball moves by all of its momentum, Nesterov's by what it will be") {
  for (const bool nesterov : {false, true}) {
    one_number x;
    detail::momentum_move<double> move(x.seen(), 0.5, nesterov);
    move.gain = 0.25;
    move.rate = 8;
    move(detail::place<double, 1>{0}, 4.0);
    CHECK(x.u[0] == 0.5 * 0.5 + 0.25 * 4);
    CHECK(x.w[0] == 2 - 8 * (nesterov ? 0.5 * x.u[0] + 0.25 * 4 : x.u[0]));
  }
}

TEST_CASE("what is carried may change without the share by which Nesterov looks ahead") {
  one_number x;
  detail::momentum_move<double> move(x.seen(), 0.5, true);
  move.carry = 0.25;
  move(detail::place<double, 1>{0}, 4.0);
  CHECK(x.u[0] == 0.25 * 0.5 + 4);
  CHECK(x.w[0] == 2 - (0.5 * x.u[0] + 4));
}

TEST_CASE(
    "what would be beyond half of the largest number counts as that, so nothing is infinite") {
  constexpr double most = std::numeric_limits<double>::max(), half = most / 2;
  one_number x{.w = {most}, .g = {}, .u = {-half}};
  detail::momentum_move<double> move(x.seen(), 0.5, true);
  move.gain = 0;  // as where a warm-up starts
  move(detail::place<double, 1>{0}, HUGE_VAL);
  CHECK(x.u[0] == -half / 2);
  CHECK(x.w[0] == half);
  move.gain = 8;
  move.rate = 8;
  move(detail::place<double, 1>{0}, -most);
  CHECK(x.u[0] == -half);
  CHECK(x.w[0] == half);
}

TEST_CASE("decay is added to the gradient, of the kinds that decay") {
  for (const bool decays : {false, true}) {
    const kind what = decays ? kind::weight : kind::bias;
    const double d = decays ? 3 + 0.25 * 2 : 3.0;
    one_number x;
    const detail::decayed_gradient<double> direction{x.w.data(), x.g.data(), 0.25};
    detail::decaying{kind::weight, direction}.of(what, 0)(detail::place<double, 1>{0});
    CHECK(x.g[0] == d);
    one_number y;
    const detail::decayed_move<double> step(y.seen(), 0.5, false, 0.25);
    detail::decaying{kind::weight, step}.of(what, 0)(detail::place<double, 1>{0});
    CHECK(y.u[0] == 0.5 * 0.5 + d);
    CHECK(y.w[0] == 2 - y.u[0]);
  }
}

TEST_CASE("what depends on the moment is set when kernels read it, behind what a kind decides") {
  one_number x;
  moment now{.rate = 0.5};
  const auto rated = [](detail::decayed_move<double>& f, const moment& at) {
    f.move.rate = at.rate;
  };
  const detail::at_moment body{
      rated, &now,
      detail::decaying{kind::weight, detail::decayed_move<double>(x.seen(), 0, false, 0.25)}};
  CHECK(body.of(kind::weight, 0).move.rate == 0.5);
  now.rate = 2;
  CHECK(body.of(kind::weight, 0).move.rate == 2);
  CHECK(body.of(kind::weight, 0).decay == 0.25);
  CHECK(body.of(kind::bias, 0).decay == 0);
}

TEST_CASE("momentum is corrected by the change of rates, but where there was none to speak of") {
  const moment now{.rate = 0.1, .previous_rate = 0.4}, first{.rate = 0.1, .previous_rate = 1e-7};
  double carry = 3;
  detail::correction{0.8, false}(carry, now);
  CHECK(carry == 3);
  detail::correction{0.8, true}(carry, first);
  CHECK(carry == 3);
  detail::correction{0.8, true}(carry, now);
  CHECK(carry == 0.8 * (0.1 / 0.4));
}
