// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/preconditioner.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace cordee::detail::train;

namespace {

/// Twice the gradient, of steps whose passes it has seen.
struct doubling {
  int passes = 0, steps = 0;

  template <class O, class Communicator>
  doubling(const O&, const Communicator&, std::span<const segment> table,
           std::span<const segment> trainables) {
    CHECK(table.size() >= trainables.size());
  }
  template <class B>
  void begin_pass(const B&, const step_info& info) {
    CHECK(info.step == steps);
    ++passes;
  }
  template <class Gradients>
  void precondition(const Gradients& gradients, const step_info& info) {
    CHECK(info.step == steps++);
    CHECK(passes == steps);
    for (double& g : std::span<double>(gradients.numbers)) g *= 2;
  }
};
struct doubled_sgd : sgd {
  static constexpr bool has_preconditioner = true;
  template <class M, class R>
  using preconditioner = doubling;
};

}  // namespace

TEST_CASE("a trainer has a preconditioner only where its optimizer names one") {
  static_assert(std::is_same_v<preconditioner_of<sgd, int, int>, no_preconditioner>);
  static_assert(std::is_same_v<preconditioner_of<doubled_sgd, int, int>, doubling>);
  static_assert(hides_preconditioner<clip<clip<doubled_sgd>>>());
  static_assert(!hides_preconditioner<clip<sgd>>());
  static_assert(!hides_preconditioner<doubled_sgd>());
  support::quadratic<fp64> a, b;
  trainer once{a, sgd{}, constant{.learning_rate = 0.02}, solo{}};
  trainer twice{b, doubled_sgd{}, constant{.learning_rate = 0.01}, solo{}};
  const std::array batches{support::one_each(1)};
  for (int k = 0; k < 3; ++k) {
    once.step(batches, k);
    twice.step(batches, k);
  }
  for (std::size_t i = 0; i < once.weights().size; ++i)
    CHECK(twice.weights()[i] == doctest::Approx(once.weights()[i]).epsilon(1e-12));
}
