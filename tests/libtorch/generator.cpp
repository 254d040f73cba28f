// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/batch_source.hpp>
#include <cordee/libtorch/generator.hpp>
#include <cordee/libtorch/torch_batches.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

namespace {

struct noisy_set : torch::data::Dataset<noisy_set> {
  example get(std::size_t i) override {
    return {torch::rand({6}) + static_cast<double>(i), torch::tensor(static_cast<int>(i % 3))};
  }
  [[nodiscard]] c10::optional<std::size_t> size() const override { return 40; }
};

}  // namespace

TEST_CASE("generator: a run that goes on has the dropout and the transforms of one in one piece") {
  const auto weights_after = [](bool interrupted, std::uint64_t seed) {
    torch::Tensor out;
    threads::launch(1, [&](threads comm) {
      batch_source feed{40,
                        comm,
                        {.global_batch = 8, .accumulate = 2, .seed = 3},
                        torch_batches{noisy_set().map(torch::data::transforms::Stack<>())}};
      auto net = std::make_shared<two_layers>();
      torch_model model{
          net, [](two_layers& n, const example& b) {
            return loss_of(n, {torch::dropout(b.data, 0.5, n.is_training()), b.target});
          }};
      trainer run{model, sgd{}, constant{}, ring{comm}, {.seed = seed}};
      torch::manual_seed(interrupted ? 5 : 6);
      if (interrupted) {
        run.fit(feed, 1);
        torch::manual_seed(7);
      }
      run.fit(feed, 2);
      out = flat(*net);
    });
    return out;
  };
  const torch::Tensor expected = weights_after(false, 1);
  CHECK(weights_after(true, 1).equal(expected));
  CHECK(!weights_after(false, 2).equal(expected));
}

TEST_CASE("generator: passes draw numbers of their own, by step, micro-batch and place") {
  const auto drawn_of = [](std::int64_t first_sample) {
    std::vector<std::int64_t> drawn;
    threads::launch(1, [&](threads comm) {
      auto net = std::make_shared<two_layers>();
      torch_model model{net, [&](two_layers& n, const example& b) {
                          drawn.push_back(torch::randint(1 << 30, {1}).item<std::int64_t>());
                          return loss_of(n, b);
                        }};
      trainer run{model, sgd{}, constant{}, ring{comm}, {.seed = 1}};
      const example own = samples(torch::kFloat);
      std::vector<data_batch<example, cpu>> micro(2);
      for (auto& b : micro) {
        b.data = &own;
        b.count = 24;
        b.global_samples = 48;
        b.first_sample = first_sample;
      }
      run.step(micro, 0);
      run.step(micro, 0);
    });
    return drawn;
  };
  std::vector<std::int64_t> drawn = drawn_of(0);
  CHECK(drawn_of(0) == drawn);
  for (const std::int64_t x : drawn_of(48)) drawn.push_back(x);
  REQUIRE(drawn.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(drawn[i] != drawn[j]);
}

TEST_CASE("generator: step() without a loader gives each rank a place of its own") {
  parameter_list list;
  list.add("w", {1});
  const auto places = on_ranks(3, [&](threads comm) {
    std::int64_t place = -1;
    custom_model<int> model{list, [&](const int&, model_pass<float, cpu>& pass) {
                              place = pass.update().first_sample;
                              return metrics{.count = 1};
                            }};
    trainer run{model, sgd{}, constant{}, ring{comm}};
    run.step(7, 1, 0);
    return place;
  });
  CHECK((places[0] == 0 && places[1] > 0 && places[2] > places[1]));
}
