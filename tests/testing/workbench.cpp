// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/workbench.hpp>

using namespace cordee;

namespace {

/// w <- w - g, and what else a rule could get wrong; it notes what it was told.
struct plain {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;

  bool spills = false;    // writes behind its segments
  bool strange = false;   // proposes what is not the bucket's
  bool all_of_it = true;  // or one number too few
  std::vector<moment>* told = nullptr;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    if (strange) return v.slots[0].subspan(1, v.slots[0].size - 1);
    return v.grads.subspan(0, v.grads.size - (all_of_it ? 0 : 1));
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream) const {
    if (told != nullptr) told->push_back(now);
    for (std::size_t i = 0; i < v.weights.size; ++i) {
      v.weights[i] -= v.grads[i];
      v.slots[0][i] += v.grads[i];
    }
    if (spills) v.slots[0][v.segments[1].end()] = 1;
  }
};

/// Writes down the norms of the first segment as `accept` sees them.
template <when Asked>
struct asking : plain {
  static constexpr when norms = Asked;
  double* seen;  // two

  template <class Real, class D>
  void accept(const view<Real, D, 1>& v, const moment&, typename D::stream) const {
    seen[0] = v.weight_squares[0];
    seen[1] = v.grad_squares[0];
  }
};

using bench = workbench<plain>;

}  // namespace

TEST_CASE(
    "workbench: weights and gradients are the seed's, of the size that is asked, no padding") {
  bench a{plain{}}, b{plain{}};
  CHECK(same_bits(a.start(3).weights(), b.start(3).weights()));
  CHECK_FALSE(same_bits(a.start(3).weights(), b.start(4).weights()));
  CHECK(same_bits(a.draw_gradient(3).gradient(), b.draw_gradient(3).gradient()));
  CHECK_FALSE(same_bits(a.start(3).weights(), a.gradient()));
  const std::vector<double> one = a.start(3).weights(), two = b.start(3, 2).weights();
  for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(two[i] == 2 * one[i]);
  for (const segment& s : bowl_table)
    for (std::size_t i = s.offset; i < s.offset + aligned(s.size); ++i)
      REQUIRE((one[i] == 0) == (i >= s.end() || s.name == "zero" || s.what == kind::statistic));
}

TEST_CASE("workbench: a sparse gradient has the first number of each segment") {
  bench at{plain{}};
  const std::vector<double> g = at.draw_gradient(1, 1, true).gradient();
  for (const segment& s : bowl_table)
    for (std::size_t i = s.offset; i < s.offset + aligned(s.size); ++i)
      REQUIRE((g[i] != 0) == (i == s.offset && s.size > 0 && s.what != kind::statistic));
}

TEST_CASE("workbench: a step accepts the gradient, and shows what was said in the table's order") {
  for (const std::size_t limit : {bench::by_segment, std::size_t{200}, ~std::size_t{0}}) {
    bench at{plain{}};
    const std::vector<double> before = at.start(1).weights();
    const std::vector<double> g = at.draw_gradient(2).gradient();
    const std::vector<double> after = at.step(0.1, limit).weights();
    for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(after[i] == before[i] - g[i]);
    // All trainable segments, their padding too; the statistic at the tail is not spoken of.
    CHECK(same_bits(
        at.said(), {g.begin(), g.begin() + static_cast<std::ptrdiff_t>(bowl_table.back().offset)}));
    const std::vector<double> state = at.state();  // weights, then the slot
    REQUIRE(state.size() == 2 * g.size());
    for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(state[g.size() + i] == g[i]);
  }
}

TEST_CASE("workbench: moments go on as in training, and start again") {
  std::vector<moment> told;
  bench at{plain{.told = &told}};
  at.start(1).step(0.5).step(0.25);
  REQUIRE(told.size() == 2);
  CHECK((told[0].step == 0 && told[0].applied == 0 && told[0].rate == 0.5));
  CHECK(told[0].previous_rate == 0);
  CHECK((told[1].step == 1 && told[1].applied == 1 && told[1].rate == 0.25));
  CHECK((told[1].previous_rate == 0.5 && told[1].epoch == 1 && told[1].round == 1));
  at.start(1).draw_gradient(1).step(1);
  CHECK((told[2].step == 0 && told[2].previous_rate == 0));
  bench fresh{plain{}};
  CHECK(same_bits(at.start(2).state(), fresh.start(2).state()));
}

TEST_CASE("workbench: norms are there where the rule asks, and those of weights only there") {
  const auto check = []<when Asked>(std::integral_constant<when, Asked>) {
    double seen[2] = {};
    workbench<asking<Asked>> at{asking<Asked>{{}, seen}};
    const std::vector<double> w = at.start(1).weights(), g = at.draw_gradient(2).gradient();
    at.step(1);
    double squares[2] = {};
    for (std::size_t i = 0; i < bowl_table[0].size; ++i) {
      squares[0] += w[i] * w[i];
      squares[1] += g[i] * g[i];
    }
    if (Asked == when::never) {  // of gradients they are known: finiteness is told by them
      CHECK(std::isnan(seen[0]));
      return;
    }
    for (int k = 0; k < 2; ++k) CHECK(seen[k] == doctest::Approx(squares[k]).epsilon(1e-12));
  };
  check(std::integral_constant<when, when::never>{});
  check(std::integral_constant<when, when::before_propose>{});
  check(std::integral_constant<when, when::before_accept>{});
}

TEST_CASE("workbench: what a rule says wrongly is said, and where it leaves dirt") {
  CHECK(bench{plain{}}.start(1).propose_only(0.1) == "");
  const std::string wrong = "is not the bucket's range of a plane";
  const auto says = [&](const std::string& text) { return text.find(wrong) != std::string::npos; };
  CHECK(says(bench{plain{.strange = true}}.start(1).propose_only(0.1)));
  CHECK(says(bench{plain{.all_of_it = false}}.start(1).propose_only(0.1)));
  CHECK(bench{plain{}}.start(1).draw_gradient(1).step(0.1).dirt_between_segments() == "");
  CHECK(bench{plain{.spills = true}}.start(1).step(0.1).dirt_between_segments() == "scale");
}

TEST_CASE("same_bits: zeros of other signs differ, numbers that are none may be the same") {
  CHECK_FALSE(same_bits<double>({0.0}, {-0.0}));
  CHECK(same_bits<double>({std::nan("")}, {std::nan("")}));
  CHECK_FALSE(same_bits<double>({1}, {1, 1}));
  CHECK(same_bits<double>({}, {}));
}
