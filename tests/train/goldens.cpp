// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors of SGD, LARS and Local SGD (docs/mathematics.md, 2.3, 3.3 and 5.6) through the
// whole trainer: the toy set T4, any number of ranks, whose optima differ and have T4's as their
// mean.
#include "tests/support/goldens.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

struct golden {
  t4_vectors expected;
  std::vector<double> learning_rates;
};

template <class P, class O>
void reaches(const O& optimizer, const golden& g) {
  check_golden<P>(optimizer, g.learning_rates, g.expected, {1, 3, 4});
}

const std::vector<double> falling{0.1, 0.1, 0.05};
// docs/mathematics.md: forms P and C are 2.1, momentum correction 2.2, the vectors 2.3.
const golden p_form{{{0.45834439475, -0.15120028985, 0.1803259896, -0.28101731005},
                     {0.0397, -0.0217},
                     {0.934265592, -1.939390899},
                     {0.03015}},
                    falling};
const golden c_form{{{0.44984411975, -0.12038892485, 0.0502313496, -0.36203076505},
                     {0.0478, -0.0676},
                     {0.920952792, -1.927163049},
                     {0.0261}},
                    falling};
const golden p_nesterov{{{0.44246183404, -0.110287901951, 0.0761207109864, -0.304569824343},
                         {0.05487895, -0.0828928},
                         {0.905732621928, -1.91149077704},
                         {0.022560525}},
                        falling};
const golden c_nesterov{{{0.43519813879, -0.0855102328011, -0.0211280834136, -0.359927577393},
                         {0.06180445, -0.1198288},
                         {0.894048533928, -1.90062312854},
                         {0.019097775}},
                        falling};
const golden dampened{{{0.460046802748, -0.156499864578, 0.198907184376, -0.271896784541},
                       {0.0380755, -0.013792},
                       {0.93711618552, -1.94209303519},
                       {0.03096225}},
                      falling};

// docs/mathematics.md, 3.2 and 3.3
const std::vector<double> halved{1, 1, 0.5};
const golden lars_a{{{0.495157498637, -0.281525941972, 0.71761960189, 0.0456088791405},
                     {0.226, -0.046},
                     {0.83692298643, -1.84646042811},
                     {-0.063}},
                    halved};
const golden lars_nesterov{{{0.493245297669, -0.274398889768, 0.686588391424, 0.0256166740705},
                            {0.1, -0.856},
                            {0.781594225345, -1.78426839406},
                            {0}},
                           halved};

}  // namespace

TEST_CASE_TEMPLATE("sgd reaches form P's golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(sgd{.momentum = 0.9, .weight_decay = 0.01}, p_form);
}
TEST_CASE_TEMPLATE("sgd with Nesterov momentum reaches its golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, p_nesterov);
}
TEST_CASE_TEMPLATE("sgd applies no dampening in its first step", P, GOLDEN_PRECISIONS) {
  reaches<P>(sgd{.momentum = 0.9, .weight_decay = 0.01, .dampening = 0.1}, dampened);
}
TEST_CASE_TEMPLATE("velocity_sgd with momentum correction equals form P", P, GOLDEN_PRECISIONS) {
  reaches<P>(velocity_sgd{.momentum = 0.9, .weight_decay = 0.01}, p_form);
  reaches<P>(velocity_sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, p_nesterov);
}
TEST_CASE_TEMPLATE("velocity_sgd without correction reaches form C's golden vector", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(velocity_sgd{.momentum = 0.9, .weight_decay = 0.01, .momentum_correction = false},
             c_form);
  reaches<P>(
      velocity_sgd{
          .momentum = 0.9, .weight_decay = 0.01, .nesterov = true, .momentum_correction = false},
      c_nesterov);
}
TEST_CASE_TEMPLATE("lars reaches variant A's golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(lars{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02}, lars_a);
  reaches<P>(
      lars{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02, .nesterov = true},
      lars_nesterov);
}

TEST_CASE("local_steps{sgd, 2} averages weights in every second step, and no momentum") {
  // docs/mathematics.md, 5.4: two workers, f = (x - b)^2 / 2 with b = 0 and 4, x = 1, learning rate
  // 0.1, momentum 0.9. T4's last segment has curvature 1, starts at 0.05 and has its optimum at 0:
  // shifted, it is this problem.
  std::vector<std::vector<double>> path(2);
  std::vector<double> buffers(2);
  threads::launch(
      2,
      [&](threads comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        quadratic<fp64> model{.shift = r == 0 ? -0.95 : 3.05};  // b - (1 - 0.05)
        trainer run{model, local_steps{sgd{.momentum = 0.9}, 2}, learning_rates({.1, .1, .1, .1}),
                    ring{comm}};
        for (int k = 0; k < 4; ++k) {
          run.step(std::array{one_each(2)}, k);
          path[r].push_back(numbers(run.weights(), 3)[0] + 0.95);
        }
        buffers[r] = numbers(run.slot(0), 3)[0];
      },
      long_deadline);
  const std::vector<std::vector<double>> expected{{0.9, 1.28, 0.99, 1.7732},
                                                  {1.3, 1.28, 2.038, 1.7732}};
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t k = 0; k < 4; ++k) CHECK(close(path[r][k], expected[r][k], 1e-12));
  CHECK(close(buffers[0], 3.6, 1e-12));
  CHECK(close(buffers[1], -8.784, 1e-12));
}

TEST_CASE("local_steps{sgd, 1} over an exact mean equals sgd without momentum") {
  const sgd plain{.momentum = 0, .weight_decay = 0.01};
  for (const int ranks : rank_counts) {
    const auto averaged_weights = train_t4<fp64>(ranks, local_steps{plain, 1}, falling);
    const auto averaged_gradients = train_t4<fp64>(ranks, plain, falling);
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < averaged_weights[0][k].size(); ++i)
        CHECK(close(averaged_weights[0][k][i], averaged_gradients[0][k][i], 1e-13));
  }
}

TEST_CASE(
    "without momentum and decay a lars step has norm learning rate x trust coefficient x |w|") {
  const auto after =
      train_t4<fp64>(1, lars{.momentum = 0, .weight_decay = 0, .trust_coefficient = 0.02}, {0.7});
  for (const std::size_t k : {0u, 2u}) {
    double moved = 0, start = 0;
    for (std::size_t i = 0; i < t4_table[k].size; ++i) {
      moved += std::pow(after[0][k][i] - t4_start[k][i], 2);
      start += std::pow(t4_start[k][i], 2);
    }
    CHECK(close(std::sqrt(moved), 0.7 * 0.02 * std::sqrt(start), 1e-13));
  }
}
