// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {
constexpr auto steady = [](double) { return 0.05; };
}

TEST_CASE("every held-out sample counts once, whatever the ranks and the batch") {
  for (const int ranks : rank_counts)
    for (const int batch_size : {1, 4, 100})
      for (const score& s : on_ranks(ranks, [&](threads link) {
             quadratic<fp64> model;
             trainer run{model, sgd{}, steady, ring{link}};
             return run.evaluate(toy_data{}, {}, batch_size);
           })) {
        CHECK(s.count == 21);
        CHECK(s.mean_loss() == doctest::Approx([] {
                                 double loss = 0;
                                 for (std::size_t k = 0; k < 4; ++k)
                                   for (std::size_t i = 0; i < t4_table[k].size; ++i)
                                     loss += t4_curvature[k][i] *
                                             std::pow(t4_start[k][i] - t4_centre[k][i], 2) / 2;
                                 return loss;
                               }())
                                   .epsilon(1e-13));
      }
}

TEST_CASE("an empty data set has an empty score") {
  quadratic<fp64> model;
  trainer run{model, sgd{}, steady, solo{}};
  CHECK(run.evaluate(toy_data{.count = 0}, {}).count == 0);
  CHECK_THROWS_AS(run.evaluate(toy_data{}, {}, 0), misuse);
}

TEST_CASE("fit puts the held-out score of the agreed model into each epoch's record") {
  struct ear {
    std::vector<epoch_record>* epochs;
    void epoch(const epoch_record& r) { epochs->push_back(r); }
  };
  std::vector<epoch_record> epochs;
  on_ranks(3, [&](threads link) {
    quadratic<fp64> model{.shift = 1.0 * link.rank()};
    trainer run{model, local{sgd{}, 100}, steady, ring{link}};
    toy_feed feed{.ranks_count = 3};
    run.fit(feed, 2, held_out{toy_data{}, 5}, ear{&epochs});
    CHECK(run.statistics()[0] == 20);  // evaluation left no trace
    return 0;
  });
  REQUIRE(epochs.size() == 2);
  for (const epoch_record& e : epochs) {
    REQUIRE(e.held_out);
    CHECK(e.held_out->count == 21);
    CHECK(e.train.count == 30);
  }
}
