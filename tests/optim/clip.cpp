// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors, and clipping of local gradients, through the trainer:
// tests/train/goldens_optimizers.cpp.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/testing/optimizer_fixture.hpp>

#include "tests/support/relative.hpp"

using namespace cordee;
using namespace cordee::detail::optim;
using support::relative;

static_assert(OptimizerOn<clip<sgd>, float, cpu> &&
              OptimizerOn<clip<local_steps<lars>>, double, cpu>);
static_assert(clip<lamb>::eager && clip<lamb>::slots == 2 && clip<sgd>::needs == agreement::exact);
static_assert(clip<sgd>::norms == norms_needed::before_accept);
static_assert(!clip<local_steps<sgd>>::eager &&
              clip<local_steps<sgd>>::norms == norms_needed::before_propose);
static_assert(!clip<decentlam>::eager && clip<decentlam>::needs == agreement::mixing);
static_assert(HasMomentumForm<clip<decentlam>> && !HasMomentumForm<clip<sgd>>);

namespace {

/// Reads its norms and moves nothing.
struct norm_recorder {
  static constexpr agreement needs = agreement::exact;
  static constexpr int slots = 0;
  static constexpr norms_needed norms = norms_needed::before_accept;

  std::vector<double>* squares = nullptr;  // of each segment, then of the whole gradient

  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info&, typename D::stream) const {
    squares->assign(v.squared_grad_norms.begin(), v.squared_grad_norms.end());
    squares->push_back(v.squared_global_norm[0]);
  }
};

}  // namespace

TEST_CASE("clip: the factor is PyTorch's, max_norm / (norm + 1e-6), and at most 1") {
  const clip optimizer{sgd{}, 2.0};
  CHECK(optimizer.clip_factor(8) == 2.0 / (8 + 1e-6));
  CHECK(optimizer.clip_factor(2) == 2.0 / (2 + 1e-6));
  CHECK(optimizer.clip_factor(1) == 1);
  CHECK(optimizer.clip_factor(0) == 1);
  CHECK(clip{sgd{}, 2.0, 0.0}.clip_factor(2) == 1);
}

TEST_CASE("clip: the wrapped optimizer reads the norms of the clipped gradient") {
  std::vector<double> squares;
  optimizer_fixture<clip<norm_recorder>> fixture(clip{norm_recorder{&squares}, 0.5, 0.0});
  const auto clipped = fixture.reset(1).set_gradient(1).step(1).gradient();
  double whole = 0;
  std::size_t k = 0;
  for (const segment& s : quadratic_table) {
    if (s.kind == kind::statistic) continue;
    double square = 0;
    for (std::size_t i = s.offset; i < s.end(); ++i) square += clipped[i] * clipped[i];
    whole += square;
    REQUIRE(k < squares.size());
    // Either is a sum of positive squares, each of a few roundings.
    CHECK(squares[k++] == relative(square, static_cast<double>(s.size + 8) * 0x1p-53));
  }
  REQUIRE(squares.size() == k + 1);
  const double tolerance = static_cast<double>(clipped.size() + 8) * 0x1p-53;
  CHECK(squares.back() == relative(whole, tolerance));
  CHECK(squares.back() == relative(0.25, tolerance));
}

TEST_CASE("clip: the gradient of a mixing optimizer is clipped before propose") {
  optimizer_fixture<clip<decentlam>> fixture(clip{decentlam{.momentum = 0}, 0.5, 0.0});
  const auto before = fixture.reset(1).weights();
  auto moved = fixture.set_gradient(1).step(1).weights();
  double square = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) square += std::pow(moved[i] - before[i], 2);
  // Differences of weights of size 1 have an absolute error of 2^-53 each.
  CHECK(std::abs(std::sqrt(square) - 0.5) < 1e-13);
}

TEST_CASE("clip refuses a limit of 0, and checks the wrapped optimizer") {
  CHECK_THROWS_WITH_AS((clip{sgd{}, 0.0}.check()),
                       "clip: max_norm is 0, but must be finite and more than 0", usage_error);
  CHECK_THROWS_AS((clip{sgd{}, std::nan("")}.check()), usage_error);
  CHECK_THROWS_AS((clip{sgd{.weight_decay = -1}, 1.0}.check()), usage_error);
  CHECK_NOTHROW((clip{sgd{}, 1.0}.check()));
}

TEST_CASE("clip describes itself, and that it clips on each rank where it does") {
  CHECK(clip{sgd{}, 2.0}.describe() == sgd{}.describe() + "; gradients clipped to norm 2");
  CHECK(clip{local_steps{sgd{}, 4}, 2.0}.describe() ==
        local_steps{sgd{}, 4}.describe() + "; gradients clipped to norm 2 on each rank");
}
