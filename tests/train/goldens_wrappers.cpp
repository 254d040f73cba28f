// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden vectors of parameter_groups (PyTorch's SGD with groups), lookahead, weight averages and
// schedule-free optimizers through the whole trainer on the toy set T4, computed by
// tests/support/optimizer_goldens.py.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/lookahead.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/goldens.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

const std::vector<double> falling{0.1, 0.1, 0.05};
const std::vector<double> longer{0.1, 0.1, 0.05, 0.05, 0.05, 0.02, 0.02, 0.02};

const t4_vectors exponential{{0.461323008069, -0.170021067026, 0.30828503168, -0.176202816248},
                             {0.0386769919312, 0.0050316005384},
                             {0.93671707494, -1.94492788982},
                             {0.0306615040344}};
const t4_vectors stochastic{{0.429333737116, -0.071839823872, -0.0226430074, -0.33618952496},
                            {0.070666262884, -0.142240264192},
                            {0.882337815926, -1.89676371635},
                            {0.014666868558}};

// The weights that are evaluated are `expected`, those trained on go on as without the average.
template <class P, class Average>
void averages_to(const Average& average, const t4_vectors& expected) {
  const std::string path =
      (std::filesystem::temp_directory_path() / concat("cordee-average-", getpid())).string();
  const auto plain = train_t4<P>(1, sgd{}, longer);
  for (const int ranks : {1, 3, 4}) {
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
      trainer run{model, weight_average{sgd{}, average}, learning_rates(longer), ring{comm}};
      const auto vectors = [&] {
        t4_vectors out;
        for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
        return out;
      };
      const t4_vectors start = run.with_mean_model(vectors);  // before any step
      for (std::size_t k = 0; k < 4; ++k) CHECK(start[k] == vectors()[k]);
      for (std::size_t k = 0; k < longer.size(); ++k)
        run.step(std::array{one_each(ranks)}, static_cast<double>(k));
      const auto before = vectors();
      const auto evaluated = run.with_mean_model(vectors);
      CHECK(vectors() == before);
      run.save(path);  // rank 0 writes what is evaluated
      CHECK(vectors() == before);
      return std::pair{evaluated, before};
    });
    for (const auto& [evaluated, trained] : by_rank)
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < expected[k].size(); ++i) {
          CAPTURE(ranks);
          CAPTURE(evaluated[k][i]);
          CHECK(close(evaluated[k][i], expected[k][i], golden_tolerance<P>));
          CHECK(close(trained[k][i], plain[0][k][i], golden_tolerance<P>));
        }
    const auto saved = cordee::detail::io::tensor_file::open(path);
    for (std::size_t k = 0; k < 4; ++k) {
      std::vector<double> numbers_of(expected[k].size());
      saved.read(t4_table[k].name, std::span<double>(numbers_of));
      CHECK(numbers_of == by_rank[0].first[k]);
    }
    std::filesystem::remove(path);
  }
}

// The weights that are evaluated after five steps.
template <class O>
void evaluates_to(const O& optimizer, double learning_rate, const t4_vectors& expected) {
  for (const int ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    const auto by_rank = on_ranks(ranks, [&](threads comm) {
      quadratic<fp64> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
      trainer run{model, optimizer, constant{learning_rate}, ring{comm}};
      for (int k = 0; k < 5; ++k) run.step(std::array{one_each(ranks)}, k);
      return run.with_mean_model([&] {
        t4_vectors out;
        for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
        return out;
      });
    });
    for (const t4_vectors& weights : by_rank)
      for (std::size_t k = 0; k < 4; ++k)
        for (std::size_t i = 0; i < expected[k].size(); ++i) {
          CAPTURE(weights[k][i]);
          CHECK(close(weights[k][i], expected[k][i], golden_tolerance<fp64>));
        }
  }
}

}  // namespace

TEST_CASE("schedule-free optimizers are evaluated at their golden average") {
  evaluates_to(schedule_free_sgd{.weight_decay = 0.01, .warmup_steps = 3}, 0.2,
               {{0.453743220758, -0.153334452537, 0.256426696196, -0.198978508334},
                {0.0441380295266, -0.0187788878841},
                {0.922493264077, -1.92636113942},
                {0.0279309852367}});
  evaluates_to(schedule_free_adamw{.weight_decay = 0.01}, 0.02,
               {{0.446655264409, -0.242990915025, 0.740525829329, 0.0419881824092},
                {0.0530991051141, 0.142034002732},
                {0.941468167118, -1.9400273202},
                {0.00605197888371}});
}

TEST_CASE_TEMPLATE("parameter_groups is PyTorch's SGD with groups: rate, momentum, decay, frozen",
                   P, GOLDEN_PRECISIONS) {
  const parameter_groups groups{
      sgd{.weight_decay = 0.01}, parameter_group{"W2", sgd{.momentum = 0.5}, 2},
      parameter_group{"", sgd{}, 0, kind::bias}, parameter_group{"b2", sgd{}, 0}};
  CHECK(contains(error_message([&] {
                   quadratic<P> model;
                   trainer run{model, groups, learning_rates(falling), solo{}};
                 }),
                 "no parameter belongs to group 2, \"b2\""));
  check_golden<P>(
      parameter_groups{sgd{.weight_decay = 0.01}, parameter_group{"W2", sgd{.momentum = 0.5}, 2},
                       parameter_group{"b2", sgd{}, 0}},
      falling,
      {{0.45834439475, -0.15120028985, 0.1803259896, -0.28101731005},
       {0.0397, -0.0217},
       {0.9061, -1.91871875},
       {0.05}},
      {1, 3, 4});
  // By kind, all biases at half the rate.
  check_golden<P>(
      parameter_groups{sgd{.weight_decay = 0.01}, parameter_group{"W2", sgd{.momentum = 0.5}, 2},
                       parameter_group{"", sgd{}, 0.5, kind::bias}},
      falling,
      {{0.45834439475, -0.15120028985, 0.1803259896, -0.28101731005},
       {0.02055625, 0.0809},
       {0.9061, -1.91871875},
       {0.039721875}},
      {1, 3, 4});
}

TEST_CASE_TEMPLATE("lookahead{sgd} reaches its golden vector", P, GOLDEN_PRECISIONS) {
  check_golden<P>(lookahead{sgd{}, 2, 0.5}, longer,
                  {{0.45243944244, -0.137895858512, 0.179325262137, -0.25178756288},
                   {0.04756055756, -0.043156212232},
                   {0.92276926131, -1.93305021587},
                   {0.02621972122}},
                  {1, 3, 4});
}

TEST_CASE_TEMPLATE("weight_average evaluates the exponential average of weights", P,
                   GOLDEN_PRECISIONS) {
  averages_to<P>(exponential_average{0.9}, exponential);
}
TEST_CASE_TEMPLATE("weight_average evaluates the stochastic average of weights", P,
                   GOLDEN_PRECISIONS) {
  averages_to<P>(stochastic_average{.start = 2, .period = 2}, stochastic);
}
