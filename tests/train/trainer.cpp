// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

// The weights by rank after 200 steps on T4 with rank-dependent data.
template <class P, class O>
auto weights_after(int ranks, const O& optimizer, trainer_options options = {}, int steps = 200,
                   int accumulate = 1) {
  return on_ranks(ranks, [&](threads comm) {
    quadratic<P> model{.shift = spread(comm.rank(), ranks)};
    trainer run{model, optimizer, slow_start, ring{comm}, options};
    std::vector<batch<cpu>> micro(static_cast<std::size_t>(accumulate), one_each(ranks));
    for (batch<cpu>& b : micro) b.global_samples *= accumulate;
    for (int k = 0; k < steps; ++k) run.step(micro, k);
    return copy(run.weights().subspan(0, 256));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("an exact reducer leaves every rank with the same bits", P, fp32, fp64) {
  for (const int ranks : rank_counts) {
    CAPTURE(ranks);
    const auto by_rank = weights_after<P>(ranks, lars{.trust_coefficient = 0.02});
    for (const auto& weights : by_rank) CHECK(same_bits(weights, by_rank[0]));
  }
}

TEST_CASE("bucket_bytes, overlap and accumulation do not change the result") {
  const sgd optimizer{.momentum = 0.9, .weight_decay = 0.01};
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto whole = weights_after<fp64>(ranks, optimizer)[0];
    const auto late = weights_after<fp64>(ranks, optimizer, {.overlap = false})[0];
    const auto pieces = weights_after<fp64>(ranks, optimizer, {.bucket_bytes = 512})[0];
    const auto twice = weights_after<fp64>(ranks, optimizer, {}, 200, 2)[0];
    CHECK(same_bits(whole, late));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      CHECK(close(pieces[i], whole[i], 1e-15));
      CHECK(close(twice[i], whole[i], 1e-14));
    }
  }
}

TEST_CASE("every rank starts with rank 0's weights") {
  const auto by_rank = on_ranks(3, [&](threads comm) {
    struct own_start : quadratic<fp64> {
      int rank = 0;
      void initialize(span_on<double, cpu> plane, std::uint64_t) const { plane[0] = 7 + rank; }
    };
    own_start model;
    model.rank = comm.rank();
    trainer run{model, sgd{}, slow_start, ring{comm}};
    return run.weights()[0];
  });
  for (const double w : by_rank) CHECK(w == 7);
}

TEST_CASE("ranks with different buckets are an error at construction") {
  const std::string message = error_message([] {
    threads::launch(
        2,
        [](threads comm) {
          quadratic<fp64> model;
          trainer run{model,
                      sgd{},
                      slow_start,
                      ring{comm},
                      {.bucket_bytes = comm.rank() == 0 ? 512u : 4096u}};
        },
        long_deadline);
  });
  CHECK(contains(
      message,
      "trainer_options::bucket_bytes, hence the buckets, differs: rank 0 has 64, 64, 64, 64, "
      "rank 1 has 256"));
}

TEST_CASE("local_steps{lars} gets the norms of its own gradient before it proposes") {
  // With one rank it must do what lars does.
  const auto weights_with = [](auto optimizer) {
    quadratic<fp64> model;
    trainer run{model, optimizer, slow_start, solo{}, {.bucket_bytes = 512}};
    for (int k = 0; k < 20; ++k) run.step(std::array{one_each(1)}, k);
    return copy(run.weights());
  };
  CHECK(same_bits(weights_with(local_steps{lars{.trust_coefficient = 0.02}, 4}),
                  weights_with(lars{.trust_coefficient = 0.02})));
}

TEST_CASE("a rank without samples contributes a zero gradient") {
  const auto by_rank = on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), 2)};  // ranks 0 and 1 have the data
    trainer run{model, sgd{.momentum = 0}, learning_rates({0.1}), ring{comm}};
    batch<cpu> own{{}, {}, comm.rank() == 2 ? 0 : 1, 2, 3};
    run.step(std::array{own}, 0);
    return run.weights()[0];
  });
  for (const double w : by_rank) CHECK(close(w, 0.5 - 0.1 * (0.5 - 0.4), 1e-15));
}

TEST_CASE("with_mean_model: has the mean of the ranks' weights, and restores their own") {
  on_ranks(3, [&](threads comm) {
    quadratic<fp64> model{.shift = spread(comm.rank(), 3)};
    trainer run{model, local_steps{sgd{.momentum = 0}, 8}, learning_rates({0.1}), ring{comm}};
    run.step(std::array{one_each(3)}, 0);
    const auto before = copy(run.weights());
    const double inside = run.with_mean_model([&] {
      CHECK(run.packed_parameters().span()[0] == run.weights()[0]);  // packed
      return run.weights()[0];
    });
    CHECK(close(inside, 0.5 - 0.1 * (0.5 - 0.4), 1e-15));
    double seen = 0;
    run.with_mean_model([&] { seen = run.weights()[0]; });  // a function without a result
    CHECK(seen == inside);
    CHECK(same_bits(before, copy(run.weights())));
    CHECK(run.packed_parameters().span()[0] == before[0]);
    return 0;
  });
}

TEST_CASE("with_mean_model: restores the weights of a rank whose function throws") {
  std::array<bool, 2> restored{};
  const std::string message = error_message([&] {
    threads::launch(2, [&](threads comm) {
      quadratic<fp64> model{.shift = spread(comm.rank(), 2)};
      trainer run{model, local_steps{sgd{.momentum = 0}, 8}, learning_rates({0.1}), ring{comm}};
      run.step(std::array{one_each(2)}, 0);
      const auto before = copy(run.weights());
      try {
        run.with_mean_model([] { throw error("no disk"); });
      } catch (const error&) {
        restored[static_cast<std::size_t>(comm.rank())] =
            same_bits(before, copy(run.weights())) &&
            run.packed_parameters().span()[0] == before[0];
      }
    });
  });
  CHECK(contains(message, "no disk"));
  CHECK(restored[0]);
  CHECK(restored[1]);
}
