// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors of LARS in its three forms (docs/mathematics.md, 3.2 and 3.3), of AdamW, LAMB and
// NVLAMB, with and without clipping (4.1, 4.2 and 4.4), through the whole trainer on the toy set
// T4.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class P, class O>
void reaches(const O& optimizer, const std::vector<double>& learning_rate,
             const t4_vectors& expected) {
  check_golden<P>(optimizer, learning_rate, expected, {1, 2, 3, 5});
}

constexpr double off = std::numeric_limits<double>::infinity();
const std::vector<double> halved{1, 1, 0.5}, hundredth{0.01, 0.01, 0.01};
constexpr lars form_a{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02};
constexpr lars_unscaled form_b{.momentum = 0.9,
                               .weight_decay = 0.01,
                               .trust_coefficient = 0.02,
                               .epsilon = 0,
                               .limits = {.ratio = off, .element = off}};
constexpr lars_lr_outside form_c{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02};

// The trust ratios of W1 and W2 in each of three steps.
template <class O>
std::vector<std::array<double, 2>> ratios(const O& optimizer) {
  std::vector<std::array<double, 2>> seen;
  quadratic<fp64> model{};
  trainer run{model, optimizer, learning_rates(halved), solo{}};
  for (int k = 0; k < 3; ++k) {
    const t4_vectors before{numbers(run.weights(), 0), numbers(run.weights(), 2)};
    run.step(std::array{one_each(1)}, k);
    std::array<double, 2> step{};
    for (std::size_t layer = 0; layer < 2; ++layer) {
      double weight = 0, grad = 0;
      const auto g = numbers(run.grads(), 2 * layer);  // accept does not change it
      for (std::size_t i = 0; i < g.size(); ++i) {
        weight += before[layer][i] * before[layer][i];
        grad += g[i] * g[i];
      }
      step[layer] = optimizer.ratio(std::sqrt(weight), std::sqrt(grad), optimizer.weight_decay);
    }
    seen.push_back(step);
  }
  return seen;
}
void check_ratios(const std::vector<std::array<double, 2>>& seen,
                  const std::vector<std::array<double, 2>>& expected) {
  for (std::size_t k = 0; k < expected.size(); ++k)
    for (std::size_t layer = 0; layer < 2; ++layer)
      CHECK(std::abs(seen[k][layer] - expected[k][layer]) < 6e-11);  // ten digits
}

}  // namespace

TEST_CASE_TEMPLATE("lars_unscaled, its limits off, reaches variant B's golden vector", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(form_b, halved,
             {{0.495926153456, -0.28446188828, 0.730727476958, 0.0542736558674},
              {0.1855, -0.073},
              {0.856966924052, -1.86517128775},
              {-0.04275}});
}
TEST_CASE_TEMPLATE("lars_lr_outside reaches variant C's golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(form_c, halved,
             {{0.495967102495, -0.284618398668, 0.731426695279, 0.054736171178},
              {0.1855, -0.073},
              {0.864395068329, -1.87209323482},
              {-0.04275}});
}
TEST_CASE("without epsilon, lars_lr_outside is MLPerf's fused LARS, which decays the last bias") {
  lars_lr_outside fused = form_c, last = form_c;
  fused.epsilon = last.epsilon = 0;
  last.decay_on = kind::bias;  // F: the classifier's bias decays without a trust ratio
  const t4_vectors expected{{0.495967102477, -0.284618398598, 0.731426694966, 0.0547361709724},
                            {0.1855, -0.073},
                            {0.864395061936, -1.87209322848},
                            {-0.042720525}};
  reaches<fp64>(parameter_groups{fused, parameter_group{"b2", last}}, halved, expected);
}
TEST_CASE_TEMPLATE("lars_norm_of_sum reaches variant D's golden vector, optax's", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(lars_norm_of_sum{.momentum = 0.9, .weight_decay = 0.01, .trust_coefficient = 0.02},
             halved,
             {{0.495152787944, -0.281508084694, 0.717540483215, 0.045556981362},
              {0.226, -0.046},
              {0.835727339892, -1.84528554501},
              {-0.063}});
}
TEST_CASE_TEMPLATE("larc reaches the golden vector of apex's clip mode", P, GOLDEN_PRECISIONS) {
  reaches<P>(larc{.weight_decay = 0.01}, {0.5, 0.5, 0.25},
             {{0.495487442235, -0.282826513566, 0.723606540124, 0.049685943281},
              {0.00308863312548, 0.181578619991},
              {0.850574133457, -1.85699660505},
              {0.0453316009337}});
}
TEST_CASE("the trust ratios of three steps are the golden ones, in each form") {
  check_ratios(ratios(form_a), {{0.008995369307, 0.2055049727},
                                {0.009121512307, 0.2196199552},
                                {0.009384041515, 0.253408484}});
  lars nesterov = form_a;
  nesterov.nesterov = true;
  check_ratios(ratios(nesterov), {{0.008995369307, 0.2055049727},
                                  {0.009242816851, 0.2344928572},
                                  {0.009647564438, 0.2944509608}});
  check_ratios(ratios(form_b), {{0.008995369307, 0.2055049727},
                                {0.009121512307, 0.2196199552},
                                {0.009385927583, 0.2547342198}});
}

TEST_CASE("lars_unscaled limits the ratio and the elements of the step") {
  lars_unscaled optimizer{.momentum = 0, .weight_decay = 0, .trust_coefficient = 1, .epsilon = 0};
  CHECK(optimizer.ratio(1e3, 1, 0) == 50);
  optimizer.limits.element = 0.5;  // T4's first gradients: 0.1, -0.4, 1.8, 1.2 on W1
  optimizer.adapt_on = {};
  const auto after = train_t4<fp64>(1, optimizer, {1});
  CHECK(close(after[0][0][0], 0.5 - 0.1, 1e-15));
  CHECK(close(after[0][0][1], -0.3 + 0.4, 1e-15));
  CHECK(close(after[0][0][2], 0.8 - 0.5, 1e-15));
  CHECK(close(after[0][0][3], 0.1 - 0.5, 1e-15));
}

TEST_CASE_TEMPLATE("lamb reaches its golden vector, with trust ratios for weights only", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(lamb{}, hundredth,
             {{0.485207504354, -0.28521993074, 0.785136963324, 0.0852445846284},
              {0.0298410611877, 0.170038203002},
              {0.953270333264, -1.95276060698},
              {0.0204877607535}});
}
TEST_CASE_TEMPLATE(
    "nvlamb reaches the golden vector of the paper's algorithm, with trust ratios for all tensors",
    P, GOLDEN_PRECISIONS) {
  reaches<P>(nvlamb{}, hundredth,
             {{0.485207504354, -0.28521993074, 0.785136963324, 0.0852445846284},
              {0.00421217374078, 0.195786398576},
              {0.953270333264, -1.95276060698},
              {0.04851495}});
}
TEST_CASE_TEMPLATE("lamb and nvlamb, clipped to norm 1, reach NVIDIA's golden vectors", P,
                   GOLDEN_PRECISIONS) {
  reaches<P>(clip{lamb{}, 1.0, 0.0}, hundredth,
             {{0.4852060595, -0.28521991248, 0.785137967092, 0.0852450375516},
              {0.0298656716048, 0.170022076451},
              {0.953268070263, -1.95276283993},
              {0.0204504082783}});
  reaches<P>(clip{nvlamb{}, 1.0, 0.0}, hundredth,
             {{0.485206318398, -0.285219912196, 0.785137792708, 0.0852449543416},
              {0.00421222002092, 0.195786444879},
              {0.953268436046, -1.95276247895},
              {0.04851495}});
}
TEST_CASE_TEMPLATE("adamw reaches its golden vector", P, GOLDEN_PRECISIONS) {
  reaches<P>(adamw{}, hundredth,
             {{0.470012795061, -0.269975578725, 0.769780632271, 0.0700111975869},
              {0.0298413697445, 0.170038152801},
              {0.969741630333, -1.96942486349},
              {0.0204871312964}});
}

TEST_CASE("clip: the gradient has norm max_norm, also in LARS's trust ratio") {
  // One step of T4: the norm of the first gradient is 2.2936052406637026.
  constexpr double norm = 2.2936052406637026, most = 0.5;
  for (const int ranks : {1, 3, 4}) {
    const auto after = train_t4<fp64>(ranks, clip{sgd{.momentum = 0}, most}, {1});
    double moved = 0;
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i)
        moved += std::pow(after[0][k][i] - t4_start[k][i], 2);
    CHECK(close(std::sqrt(moved), norm * most / (norm + 1e-6), 1e-14));
  }

  // With decay the ratio depends on the length of g; clipping the mean beforehand is the same.
  const lars inner{.momentum = 0, .weight_decay = 0.01, .trust_coefficient = 0.02};
  const auto clipped = train_t4<fp64>(2, clip{inner, most, 0.0}, {1});
  const double g2 = std::hypot(0.15, 0.125) * most / norm, w2 = std::hypot(1.0, 2.0);
  const double d = 0.15 * most / norm + 0.01;
  CHECK(close(clipped[0][2][0], 1 - inner.ratio(w2, g2, 0.01) * d, 1e-13));

  // A limit that is never reached changes no bit.
  CHECK(train_t4<fp64>(2, clip{sgd{}, 1e3}, halved) == train_t4<fp64>(2, sgd{}, halved));
}

TEST_CASE("clip{clip}: the inner one clips the gradient that the outer one returns") {
  const sgd plain{.momentum = 0};
  CHECK(train_t4<fp64>(2, clip{clip{plain, 2.0, 0.0}, 0.5, 0.0}, {1, 1}) ==
        train_t4<fp64>(2, clip{plain, 0.5, 0.0}, {1, 1}));
}

TEST_CASE("clip{local_steps}: each rank clips its own gradient, by the norm over all buckets") {
  const local_steps inner{sgd{.momentum = 0}, 1};
  const trainer_options a_bucket_each{.bucket_bytes = 1};
  for (const int ranks : {1, 3, 4}) {
    const auto outside = train_t4<fp64>(ranks, clip{inner, 0.5, 0.0}, {1}, a_bucket_each);
    const auto inside =
        train_t4<fp64>(ranks, local_steps{clip{inner.optimizer, 0.5, 0.0}, 1}, {1}, a_bucket_each);
    t4_vectors expected(4);
    for (std::size_t k = 0; k < 4; ++k) expected[k].assign(t4_table[k].size, 0);
    for (int r = 0; r < ranks; ++r) {
      const double shift = 0.25 * (r - 0.5 * (ranks - 1));
      double square = 0;
      const auto gradient = [&](std::size_t k, std::size_t i) {
        return t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i] - shift);
      };
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < t4_table[k].size; ++i) square += std::pow(gradient(k, i), 2);
      const double scale = std::min(1.0, 0.5 / std::sqrt(square));
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < t4_table[k].size; ++i)
          expected[k][i] += (t4_start[k][i] - scale * gradient(k, i)) / ranks;
    }
    for (std::size_t k = 0; k < 4; ++k)
      for (std::size_t i = 0; i < t4_table[k].size; ++i) {
        CHECK(close(outside[0][k][i], expected[k][i], 1e-14));
        CHECK(close(inside[0][k][i], expected[k][i], 1e-14));
      }
  }
}

TEST_CASE("invalid hyper-parameters are rejected at construction, inside wrappers as well") {
  quadratic<fp64> model{};
  const auto refused = [&](const auto& optimizer) {
    return error_message([&] { trainer run{model, optimizer, learning_rates({0.1}), solo{}}; });
  };
  CHECK(refused(sgd{}) == "");
  CHECK(contains(refused(sgd{.momentum = 1}), "sgd: momentum is 1, but must be in [0, 1)"));
  CHECK(contains(refused(clip{local_steps{lars{.trust_coefficient = 0}, 2}, 1.0}),
                 "lars: trust_coefficient is 0"));
  CHECK(contains(refused(local_steps{sgd{}, 0}), "at least 1 step"));
}

TEST_CASE("an invalid learning rate is an error with its epoch, on every rank") {
  for (const double learning_rate : {-0.1, std::nan(""), off}) {
    const std::string message = error_message([&] {
      train_t4<fp64>(3, sgd{}, {0.1, learning_rate});
    });
    CAPTURE(message);
    CHECK(contains(message, "at epoch 1"));
    CHECK(contains(message, "it must be finite, 0 or more"));
  }
}
