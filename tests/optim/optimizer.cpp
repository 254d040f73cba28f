// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concept: the smallest optimizer, one with the members that it may lack, and
// these without each member in turn.
#include <array>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/checks/pairing.hpp>

using namespace cordee;
using namespace cordee::detail::optim;
using namespace cordee::detail::train;

namespace {

/// w <- w - lr g, with g kept in the slot.
struct smallest {
  static constexpr agreement needs = agreement::exact;
  static constexpr int slots = 1;

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream) const {
    for (std::size_t i = 0; i < v.grads.size; ++i) {
      v.slots[0][i] = v.grads[i];
      v.weights[i] -= static_cast<Real>(info.learning_rate) * v.grads[i];
    }
  }
};

/// The same with each member spelt out, but it is not eager and proposes its slot.
struct complete : smallest {
  static constexpr bool eager = false;
  static constexpr norms_needed norms = norms_needed::before_accept;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info&,
                           typename D::stream) const {
    return v.slots[0];
  }
};

struct without_needs : smallest {
 private:
  static constexpr agreement needs = agreement::exact;
};
struct mixing_without_propose : smallest {
  static constexpr agreement needs = agreement::mixing;
};
struct not_eager : smallest {
  static constexpr bool eager = false;
};
struct private_propose : smallest {
 private:
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, 1>& v, const step_info&,
                           typename D::stream) const {
    return v.grads;
  }
};
struct smallest_final final : smallest {};
struct complete_final final : complete {};
struct needs_as_int : smallest {
  static constexpr int needs = 2;  // no conversion to a scoped enumeration
};
struct without_norms : complete {
 private:
  static constexpr norms_needed norms = norms_needed::never;
};
struct without_eager : complete {
 private:
  static constexpr bool eager = true;
};
struct other_slots : smallest {
  static constexpr int slots = 2;
};
struct proposing_void : smallest {
  template <class Real, class D>
  void propose(const optimizer_view<Real, D, 1>&, const step_info&, typename D::stream) const {}
};
struct accepting_bool : smallest {
  template <class Real, class D>
  bool accept(const optimizer_view<Real, D, 1>&, const step_info&, typename D::stream) const {
    return true;
  }
};
struct non_const_accept : smallest {
  int steps = 0;
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, 1>&, const step_info&, typename D::stream) {
    ++steps;
  }
};
struct not_copyable : smallest {
  not_copyable(const not_copyable&) = delete;
};

template <agreement Needs>
struct needing {
  static constexpr agreement needs = Needs;
};
template <agreement Offers, bool Lossless = true>
struct offering {
  static constexpr agreement offers = Offers;
  static constexpr bool lossless = Lossless;
};

constexpr agreement levels[] = {agreement::loose, agreement::mixing, agreement::exact};
template <agreement Needs, bool Lossless>
constexpr std::array<bool, 3> compatible{
    Compatible<needing<Needs>, offering<agreement::loose, Lossless>>,
    Compatible<needing<Needs>, offering<agreement::mixing, Lossless>>,
    Compatible<needing<Needs>, offering<agreement::exact, Lossless>>};

}  // namespace

static_assert(OptimizerOn<smallest, float, cpu> && OptimizerOn<smallest, double, cpu>);
static_assert(OptimizerOn<complete, float, cpu> && OptimizerOn<complete_final, double, cpu>);
static_assert(is_eager<smallest> && norms_of<smallest> == norms_needed::never);
static_assert(!is_eager<complete> && norms_of<complete> == norms_needed::before_accept);
static_assert(OptimizerOn<not_eager, float, cpu> && !is_eager<not_eager>);
static_assert(!OptimizerOn<mixing_without_propose, float, cpu>);
static_assert(!OptimizerOn<private_propose, float, cpu>);
static_assert(OptimizerOn<smallest_final, float, cpu> && ProposesGradients<smallest_final>);
static_assert(!ProposesGradients<complete> && !ProposesGradients<complete_final>);
static_assert(!OptimizerOn<without_needs, float, cpu> && !OptimizerOn<needs_as_int, float, cpu>);
static_assert(!OptimizerOn<without_norms, float, cpu> && !OptimizerOn<without_eager, float, cpu>);
static_assert(!OptimizerOn<other_slots, float, cpu> && !OptimizerOn<non_const_accept, float, cpu>);
static_assert(!OptimizerOn<proposing_void, float, cpu>);
static_assert(!OptimizerOn<accepting_bool, float, cpu>);
static_assert(!OptimizerOn<not_copyable, float, cpu> && !OptimizerOn<smallest, float, int>);

TEST_CASE("Compatible: the reducer offers at least the agreement that the optimizer needs") {
  CHECK(compatible<agreement::loose, true> == std::array{true, true, true});
  CHECK(compatible<agreement::mixing, true> == std::array{false, true, true});
  CHECK(compatible<agreement::exact, true> == std::array{false, false, true});
  CHECK(levels[0] < levels[1]);  // the order is that of the enumeration
  CHECK(levels[1] < levels[2]);
}

TEST_CASE("Compatible: a lossy reducer takes the gradients of exact optimizers alone") {
  CHECK(compatible<agreement::loose, false> == std::array{false, false, false});
  CHECK(compatible<agreement::mixing, false> == std::array{false, false, false});
  CHECK(compatible<agreement::exact, false> == std::array{false, false, true});
}

TEST_CASE("optimizer: accept reads the mixed vector where the proposal lay") {
  std::array<double, 2> w{1, 2}, g{10, 20}, u{};
  const auto on = [](std::array<double, 2>& a) { return span_on<double, cpu>{a.data(), 2}; };
  const optimizer_view<double, cpu, 1> v{
      .weights = on(w), .grads = on(g), .slots = {on(u)}, .segments = {}};
  CHECK(proposal(complete{}, v, step_info{}, cpu::stream{}).data == u.data());
  const auto proposed = proposal(smallest{}, v, step_info{}, cpu::stream{});
  for (double& x : proposed) x /= 10;  // as a reducer
  smallest{}.accept(v, step_info{.learning_rate = 0.5}, cpu::stream{});
  CHECK(w == std::array{0.5, 1.0});
  CHECK(u == std::array{1.0, 2.0});
}
