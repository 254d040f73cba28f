// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/optimizer_fixture.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using support::relative;

namespace {

constexpr double ulp = 0x1p-52;  // unit in the last place of 1

/// w <- w - g with optional faults; records the step_info of each accept.
struct plain {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;

  bool writes_padding = false;
  bool proposes_other_range = false;
  bool proposes_too_few = false;
  std::vector<step_info>* infos = nullptr;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    if (proposes_other_range) return v.slots[0].subspan(1, v.slots[0].size - 1);
    return v.grads.subspan(0, v.grads.size - (proposes_too_few ? 1 : 0));
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream) const {
    if (infos != nullptr) infos->push_back(info);
    for (std::size_t i = 0; i < v.weights.size; ++i) {
      v.weights[i] -= v.grads[i];
      v.slots[0][i] += v.grads[i];
    }
    if (writes_padding) v.slots[0][v.segments[1].end()] = 1;
  }
};

/// Records the norms of the first segment that `accept` finds in the view.
template <norms_needed Norms>
struct recording_norms : plain {
  static constexpr norms_needed norms = Norms;
  double* recorded;  // of weights and gradient

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, 1>& v, const step_info&, typename D::stream) const {
    recorded[0] = v.squared_weight_norms[0];
    recorded[1] = v.squared_grad_norms[0];
  }
};

using fixture = optimizer_fixture<plain>;

}  // namespace

TEST_CASE("optimizer_fixture: weights and gradients are functions of seed and size, padding is 0") {
  fixture a{plain{}}, b{plain{}};
  CHECK(same_bits(a.reset(3).weights(), b.reset(3).weights()));
  CHECK_FALSE(same_bits(a.reset(3).weights(), b.reset(4).weights()));
  CHECK(same_bits(a.set_gradient(3).gradient(), b.set_gradient(3).gradient()));
  CHECK_FALSE(same_bits(a.reset(3).weights(), a.gradient()));
  const std::vector<double> w = a.reset(3).weights(), doubled = b.reset(3, 2).weights();
  for (std::size_t i = 0; i < w.size(); ++i) REQUIRE(doubled[i] == 2 * w[i]);
  for (const segment& s : quadratic_table)
    for (std::size_t i = s.offset; i < s.offset + detail::core::align_up(s.size); ++i)
      REQUIRE((w[i] == 0) == (i >= s.end() || s.name == "zero" || s.kind == kind::statistic));
}

TEST_CASE("optimizer_fixture: a sparse gradient is zero but for the first number of each segment") {
  fixture one{plain{}};
  const std::vector<double> g = one.set_gradient(1, 1, true).gradient();
  for (const segment& s : quadratic_table)
    for (std::size_t i = s.offset; i < s.offset + detail::core::align_up(s.size); ++i)
      REQUIRE((g[i] != 0) == (i == s.offset && s.size > 0 && s.kind != kind::statistic));
}

TEST_CASE(
    "optimizer_fixture: a step accepts the gradient and records the proposal in the table's "
    "order") {
  for (const std::size_t limit :
       {fixture::one_segment_per_bucket, std::size_t{200}, ~std::size_t{0}}) {
    fixture one{plain{}};
    const std::vector<double> before = one.reset(1).weights();
    const std::vector<double> g = one.set_gradient(2).gradient();
    const std::vector<double> after = one.step(0.1, limit).weights();
    for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(after[i] == before[i] - g[i]);
    // All trainable segments with their padding, without the statistic at the end.
    const auto end = g.begin() + static_cast<std::ptrdiff_t>(quadratic_table.back().offset);
    CHECK(same_bits(one.proposed(), std::vector<double>(g.begin(), end)));
    const std::vector<double> state = one.state();  // weights, then the slot
    REQUIRE(state.size() == 2 * g.size());
    for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(state[g.size() + i] == g[i]);
  }
}

TEST_CASE("optimizer_fixture: step_info advances as in training, and reset starts it again") {
  std::vector<step_info> infos;
  fixture one{plain{.infos = &infos}};
  one.reset(1).step(0.5).step(0.25);
  REQUIRE(infos.size() == 2);
  CHECK((infos[0].step == 0 && infos[0].applied == 0 && infos[0].learning_rate == 0.5));
  CHECK(infos[0].previous_learning_rate == 0);
  CHECK((infos[1].step == 1 && infos[1].applied == 1 && infos[1].learning_rate == 0.25));
  CHECK((infos[1].previous_learning_rate == 0.5 && infos[1].epoch == 1 && infos[1].round == 1));
  one.reset(1).set_gradient(1).step(1);
  CHECK((infos[2].step == 0 && infos[2].previous_learning_rate == 0));
  fixture fresh{plain{}};
  CHECK(same_bits(one.reset(2).state(), fresh.reset(2).state()));
}

TEST_CASE("optimizer_fixture: norms are in the view where the optimizer requests them, else NaN") {
  const auto check = []<norms_needed Norms>(std::integral_constant<norms_needed, Norms>) {
    double recorded[2] = {};
    optimizer_fixture<recording_norms<Norms>> one{recording_norms<Norms>{{}, recorded}};
    const std::vector<double> w = one.reset(1).weights(), g = one.set_gradient(2).gradient();
    one.step(1);
    double squares[2] = {};
    for (std::size_t i = 0; i < quadratic_table[0].size; ++i) {
      squares[0] += w[i] * w[i];
      squares[1] += g[i] * g[i];
    }
    if (Norms == norms_needed::never) {  // those of gradients are known, for finiteness
      CHECK(std::isnan(recorded[0]));
      return;
    }
    // 33,003 positive terms in another order: at most so many roundings.
    for (int k = 0; k < 2; ++k) CHECK(recorded[k] == relative(squares[k], 33'003 * ulp));
  };
  check(std::integral_constant<norms_needed, norms_needed::never>{});
  check(std::integral_constant<norms_needed, norms_needed::before_propose>{});
  check(std::integral_constant<norms_needed, norms_needed::before_accept>{});
}

TEST_CASE("optimizer_fixture: an invalid proposal and a nonzero padding are reported") {
  CHECK(fixture{plain{}}.reset(1).propose_violation(0.1) == "");
  const auto is_reported = [](const std::string& violation) {
    return violation.find("is not the bucket's range of a plane") != std::string::npos;
  };
  CHECK(is_reported(fixture{plain{.proposes_other_range = true}}.reset(1).propose_violation(0.1)));
  CHECK(is_reported(fixture{plain{.proposes_too_few = true}}.reset(1).propose_violation(0.1)));
  CHECK(fixture{plain{}}.reset(1).set_gradient(1).step(0.1).nonzero_padding() == "");
  CHECK(fixture{plain{.writes_padding = true}}.reset(1).step(0.1).nonzero_padding() == "scale");
}
