// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the trainer: tests/train/goldens.cpp and trainer.cpp.
#include <doctest/doctest.h>

#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/planes.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<local<sgd>, float, cpu>);
static_assert(local<sgd>::norms == when::never && local<lars>::norms == when::before_propose);
static_assert(!local<sgd>::eager && local<sgd>::needs == agreement::loose);

namespace {

struct spoken {
  bool said;
  double weight;
};
spoken propose(const local<sgd>& rule, std::int64_t step, bool finite, double epoch = 0) {
  std::vector<double> w(64, 1), g(64, 1), b(64);
  const std::array table{segment{"w", kind::weight, 0, 2}};
  view<double, cpu, 1> v{
      {w.data(), 64}, {g.data(), 64}, {span_on<double, cpu>{b.data(), 64}}, table};
  v.finite = finite;
  const auto said = rule.propose(v, moment{step, step, 0, epoch, 0.5, 0.5}, cpu::stream{});
  CHECK((said.empty() || said.data == w.data()));
  return {!said.empty(), w[0]};
}

}  // namespace

TEST_CASE("local says nothing but at every n-th step, counted from the first") {
  const local rule{sgd{.momentum = 0}, 4};
  for (std::int64_t step = 0; step < 12; ++step)
    CHECK(propose(rule, step, true).said == (step % 4 == 3));
  CHECK(propose(local{sgd{}}, 0, true).said);
}

TEST_CASE("local steps before it speaks, unless its gradient is not finite") {
  const local rule{sgd{.momentum = 0}, 1};
  CHECK(propose(rule, 0, true).weight == 0.5);
  CHECK(propose(rule, 0, false).weight == 1);
  CHECK(propose(rule, 0, false).said);
}

TEST_CASE("post-local: before its epoch the ranks meet at each step, then at every n-th") {
  const local rule{sgd{.momentum = 0}, 4, 1.5};
  for (std::int64_t step = 0; step < 24; ++step) {
    const double epoch = static_cast<double>(step) / 8;
    CHECK(propose(rule, step, true, epoch).said == (step < 12 || step % 4 == 3));
  }
  CHECK(rule.describe().find("every 4 steps from epoch 1.5 on, at each one before") !=
        std::string::npos);
  CHECK(local{sgd{}, 4}.describe().find("from epoch") == std::string::npos);
  CHECK_THROWS_AS((local{sgd{}, 4, -1.0}.check()), misuse);
}
