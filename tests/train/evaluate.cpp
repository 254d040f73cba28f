// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace support;

namespace {
constexpr auto steady = [](double) { return 0.05; };
}

TEST_CASE("evaluate: every sample counts once, for any number of ranks and batch size") {
  for (const int ranks : rank_counts)
    for (const int batch_size : {1, 4, 100})
      for (const metrics& s : on_ranks(ranks, [&](threads comm) {
             quadratic<fp64> model;
             trainer run{model, sgd{}, steady, ring{comm}};
             return run.evaluate(toy_data{}, {}, batch_size);
           })) {
        CHECK(s.count == 21);
        CHECK(relatively_close(
            s.mean_loss(),
            [] {
              double loss = 0;
              for (std::size_t k = 0; k < 4; ++k)
                for (std::size_t i = 0; i < t4_table[k].size; ++i)
                  loss += t4_curvature[k][i] * std::pow(t4_start[k][i] - t4_center[k][i], 2) / 2;
              return loss;
            }(),
            1e-13));
      }
}

TEST_CASE("evaluate: an empty data set has empty metrics") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  CHECK(run.evaluate(toy_data{.count = 0}, {}).count == 0);
  CHECK_THROWS_AS(run.evaluate(toy_data{}, {}, 0), usage_error);
}

TEST_CASE("fit: each epoch's record has the validation metrics of the mean model") {
  struct recorder {
    std::vector<epoch_record>* epochs;
    void epoch(const epoch_record& r) { epochs->push_back(r); }
  };
  std::vector<epoch_record> epochs;
  on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = 1.0 * comm.rank()};
    trainer run{model, local_steps{sgd{}, 100}, steady, ring{comm}};
    toy_loader feed{.rank_count = 3};
    run.fit(feed, 2, validation{toy_data{}, 5}, recorder{&epochs});
    CHECK(run.statistics()[0] == 20);  // evaluation restored it
    return 0;
  });
  REQUIRE(epochs.size() == 2);
  for (const epoch_record& e : epochs) {
    REQUIRE(e.validation);
    CHECK(e.validation->count == 21);
    CHECK(e.train.count == 30);
  }
}
