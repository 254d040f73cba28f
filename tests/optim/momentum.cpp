// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// In each optimizer: tests/optim/sgd.cpp, lars.cpp, decentlam.cpp.
#include <array>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/simd_for_each.hpp>
#include <cordee/optim/momentum.hpp>

#include "tests/support/planes.hpp"

using namespace cordee;

namespace {

struct one_number {
  std::array<double, 1> w{2}, g{3}, u{0.5};

  [[nodiscard]] optimizer_view<double, cpu, 1> view() {
    return {{w.data(), 1}, {g.data(), 1}, {span_on<double, cpu>{u.data(), 1}}, {}};
  }
};

}  // namespace

TEST_CASE("momentum_update: heavy ball steps along u, Nesterov along momentum u + gain d") {
  for (const bool nesterov : {false, true}) {
    one_number x;
    detail::optim::momentum_update<double> update(x.view(), 0.5, nesterov);
    update.gain = 0.25;
    update.learning_rate = 8;
    update(detail::ops::lane_ref<double, 1>{0}, 4.0);
    CHECK(x.u[0] == 0.5 * 0.5 + 0.25 * 4);
    CHECK(x.w[0] == 2 - 8 * (nesterov ? 0.5 * x.u[0] + 0.25 * 4 : x.u[0]));
  }
}

TEST_CASE("momentum_update: a corrected carry does not change the momentum of Nesterov's step") {
  one_number x;
  detail::optim::momentum_update<double> update(x.view(), 0.5, true);
  update.carry = 0.25;
  update(detail::ops::lane_ref<double, 1>{0}, 4.0);
  CHECK(x.u[0] == 0.25 * 0.5 + 4);
  CHECK(x.w[0] == 2 - (0.5 * x.u[0] + 4));
}

TEST_CASE("momentum_update: numbers are limited to half of the largest, so none is infinite") {
  constexpr double most = std::numeric_limits<double>::max(), half = most / 2;
  one_number x{.w = {most}, .g = {}, .u = {-half}};
  detail::optim::momentum_update<double> update(x.view(), 0.5, true);
  update.gain = 0;  // as at learning rate 0
  update(detail::ops::lane_ref<double, 1>{0}, HUGE_VAL);
  CHECK(x.u[0] == -half / 2);
  CHECK(x.w[0] == half);
  update.gain = 8;
  update.learning_rate = 8;
  update(detail::ops::lane_ref<double, 1>{0}, -most);
  CHECK(x.u[0] == -half);
  CHECK(x.w[0] == half);
}

TEST_CASE("decay is added to the gradient, of the kinds that decay") {
  for (const bool decay_on : {false, true}) {
    const kind what = decay_on ? kind::weight : kind::bias;
    const double d = decay_on ? 3 + 0.25 * 2 : 3.0;
    one_number x;
    const detail::optim::decayed_gradient<double> direction{x.w.data(), x.g.data(), 0.25};
    detail::optim::decay_by_kind{kind::weight, direction}.for_segment(
        what, 0)(detail::ops::lane_ref<double, 1>{0});
    CHECK(x.g[0] == d);
    one_number y;
    const detail::optim::decayed_update<double> step(y.view(), 0.5, false, 0.25);
    detail::optim::decay_by_kind{kind::weight, step}.for_segment(
        what, 0)(detail::ops::lane_ref<double, 1>{0});
    CHECK(y.u[0] == 0.5 * 0.5 + d);
    CHECK(y.w[0] == 2 - y.u[0]);
  }
}

TEST_CASE(
    "with_step_info: the step's numbers are read when `of` is called, after the kind's decay is "
    "set") {
  one_number x;
  step_info info{.learning_rate = 0.5};
  const auto rated = [](detail::optim::decayed_update<double>& f, const step_info& now) {
    f.update.learning_rate = now.learning_rate;
  };
  const detail::optim::with_step_info body{
      rated, &info,
      detail::optim::decay_by_kind{
          kind::weight, detail::optim::decayed_update<double>(x.view(), 0, false, 0.25)}};
  CHECK(body.for_segment(kind::weight, 0).update.learning_rate == 0.5);
  info.learning_rate = 2;
  CHECK(body.for_segment(kind::weight, 0).update.learning_rate == 2);
  CHECK(body.for_segment(kind::weight, 0).decay == 0.25);
  CHECK(body.for_segment(kind::bias, 0).decay == 0);
}

TEST_CASE("corrected_momentum: momentum lr / previous lr where the previous lr is above 1e-7") {
  const step_info info{.learning_rate = 0.1, .previous_learning_rate = 0.4},
      first{.learning_rate = 0.1, .previous_learning_rate = 1e-7};
  double carry = 3;
  detail::optim::corrected_momentum{0.8, false}(carry, info);
  CHECK(carry == 3);
  detail::optim::corrected_momentum{0.8, true}(carry, first);
  CHECK(carry == 3);
  detail::optim::corrected_momentum{0.8, true}(carry, info);
  CHECK(carry == 0.8 * (0.1 / 0.4));
}
