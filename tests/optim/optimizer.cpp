// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concept: one that is as small as can be, and that one short of each thing.
#include <array>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/optim/optimizer.hpp>

using namespace cordee;

namespace {

/// The least that is a rule: w <- w - rate (what comes back), with a memory of it.
struct least {
  static constexpr agreement needs = agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr when norms = when::never;

  template <class Real, class D>
  span_on<Real, D> propose(const view<Real, D, slots>& v, const moment&, typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const view<Real, D, slots>& v, const moment& now, typename D::stream) const {
    for (std::size_t i = 0; i < v.grads.size; ++i) {
      v.slots[0][i] = v.grads[i];
      v.weights[i] -= static_cast<Real>(now.rate) * v.grads[i];
    }
  }
};

struct no_need : least {
 private:
  static constexpr agreement needs = agreement::exact;
};
struct need_in_numbers : least {
  static constexpr int needs = 2;  // a scoped enumeration takes no number
};
struct no_norms : least {
 private:
  static constexpr when norms = when::never;
};
struct no_eagerness : least {
 private:
  static constexpr bool eager = true;
};
struct other_slots : least {
  static constexpr int slots = 2;
};
struct proposing_nothing : least {
  template <class Real, class D>
  void propose(const view<Real, D, 1>&, const moment&, typename D::stream) const {}
};
struct accepting_with_an_answer : least {
  template <class Real, class D>
  bool accept(const view<Real, D, 1>&, const moment&, typename D::stream) const {
    return true;
  }
};
struct changing : least {
  int steps = 0;
  template <class Real, class D>
  void accept(const view<Real, D, 1>&, const moment&, typename D::stream) {
    ++steps;
  }
};
struct not_copyable : least {
  not_copyable(const not_copyable&) = delete;
};

template <agreement What>
struct needing {
  static constexpr agreement needs = What;
};
template <agreement What, bool EveryBit = true>
struct offering {
  static constexpr agreement offers = What;
  static constexpr bool lossless = EveryBit;
};

constexpr agreement levels[] = {agreement::loose, agreement::mixing, agreement::exact};
template <agreement Needs, bool EveryBit>
constexpr std::array<bool, 3> agreeing{
    Agrees<needing<Needs>, offering<agreement::loose, EveryBit>>,
    Agrees<needing<Needs>, offering<agreement::mixing, EveryBit>>,
    Agrees<needing<Needs>, offering<agreement::exact, EveryBit>>};

}  // namespace

static_assert(OptimizerOn<least, float, cpu> && OptimizerOn<least, double, cpu>);
static_assert(!OptimizerOn<no_need, float, cpu> && !OptimizerOn<need_in_numbers, float, cpu>);
static_assert(!OptimizerOn<no_norms, float, cpu> && !OptimizerOn<no_eagerness, float, cpu>);
static_assert(!OptimizerOn<other_slots, float, cpu> && !OptimizerOn<changing, float, cpu>);
static_assert(!OptimizerOn<proposing_nothing, float, cpu>);
static_assert(!OptimizerOn<accepting_with_an_answer, float, cpu>);
static_assert(!OptimizerOn<not_copyable, float, cpu> && !OptimizerOn<least, float, int>);

TEST_CASE("optimizer: a rule agrees with every reducer that offers as much as it needs, or more") {
  CHECK(agreeing<agreement::loose, true> == std::array{true, true, true});
  CHECK(agreeing<agreement::mixing, true> == std::array{false, true, true});
  CHECK(agreeing<agreement::exact, true> == std::array{false, false, true});
  CHECK(levels[0] < levels[1]);  // the order is that of the enumeration
  CHECK(levels[1] < levels[2]);
}

TEST_CASE("optimizer: a wire that rounds is for gradients alone: no position travels on it") {
  CHECK(agreeing<agreement::loose, false> == std::array{false, false, false});
  CHECK(agreeing<agreement::mixing, false> == std::array{false, false, false});
  CHECK(agreeing<agreement::exact, false> == std::array{false, false, true});
}

TEST_CASE("optimizer: the answer stands where the proposal stood") {
  std::array<double, 2> w{1, 2}, g{10, 20}, u{};
  const auto on = [](std::array<double, 2>& a) { return span_on<double, cpu>{a.data(), 2}; };
  const view<double, cpu, 1> v{.weights = on(w), .grads = on(g), .slots = {on(u)}, .segments = {}};
  const auto said = least{}.propose(v, moment{}, cpu::stream{});
  for (double& x : said) x /= 10;  // a reducer
  least{}.accept(v, moment{.rate = 0.5}, cpu::stream{});
  CHECK(w == std::array{0.5, 1.0});
  CHECK(u == std::array{1.0, 2.0});
}
