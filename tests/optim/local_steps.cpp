// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the trainer: tests/train/goldens.cpp and trainer.cpp.
#include <limits>

#include <doctest/doctest.h>

#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/planes.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

static_assert(OptimizerOn<local_steps<sgd>, float, cpu>);
static_assert(local_steps<sgd>::norms == norms_needed::never &&
              local_steps<lars>::norms == norms_needed::before_propose);
static_assert(!local_steps<sgd>::eager && local_steps<sgd>::needs == agreement::loose);

namespace {

struct proposal {
  bool averages;
  double weight;
};
proposal propose(const local_steps<sgd>& optimizer, std::int64_t step, bool finite,
                 double epoch = 0) {
  std::vector<double> w(64, 1), g(64, 1), b(64);
  const std::array table{segment{"w", kind::weight, 0, 2}};
  optimizer_view<double, cpu, 1> v{
      {w.data(), 64}, {g.data(), 64}, {span_on<double, cpu>{b.data(), 64}}, table};
  v.finite = finite;
  const auto proposed =
      optimizer.propose(v, step_info{step, step, 0, epoch, 0.5, 0.5}, cpu::stream{});
  CHECK((proposed.empty() || proposed.data == w.data()));
  return {!proposed.empty(), w[0]};
}

}  // namespace

TEST_CASE(
    "local_steps proposes the weights at every period-th step, counted from the first, else "
    "nothing") {
  const local_steps optimizer{sgd{.momentum = 0}, 4};
  for (std::int64_t step = 0; step < 12; ++step)
    CHECK(propose(optimizer, step, true).averages == (step % 4 == 3));
  CHECK(propose(local_steps{sgd{}}, 0, true).averages);
}

TEST_CASE("local_steps steps before it proposes, unless the gradient is not finite") {
  const local_steps optimizer{sgd{.momentum = 0}, 1};
  CHECK(propose(optimizer, 0, true).weight == 0.5);
  CHECK(propose(optimizer, 0, false).weight == 1);
  CHECK(propose(optimizer, 0, false).averages);
}

TEST_CASE(
    "post-local SGD: weights are averaged at each step before start_epoch, then at every "
    "period-th") {
  const local_steps optimizer{sgd{.momentum = 0}, 4, 1.5};
  for (std::int64_t step = 0; step < 24; ++step) {
    const double epoch = static_cast<double>(step) / 8;
    CHECK(propose(optimizer, step, true, epoch).averages == (step < 12 || step % 4 == 3));
  }
  CHECK(optimizer.describe().find("every 4 steps from epoch 1.5, every step before") !=
        std::string::npos);
  CHECK(local_steps{sgd{}, 4}.describe().find("from epoch") == std::string::npos);
  CHECK_THROWS_AS((local_steps{sgd{}, 4, -1.0}.check()), usage_error);
}

TEST_CASE("local_steps describes itself around an optimizer without describe()") {
  struct undescribed : sgd {
    std::string describe() const = delete;
  };
  CHECK(local_steps<undescribed>{}.describe().find("a type without describe()") !=
        std::string::npos);
}

TEST_CASE("local_steps: a start that never comes is refused by name") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(error_message([] {
          local_steps{sgd{}, 8, infinity}.check();
        }) == "local_steps: start_epoch is inf, but must be finite and 0 or more");
}
