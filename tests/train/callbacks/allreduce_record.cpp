// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr constant fixed_rate{0.05};

struct epoch_callback {
  void epoch(const epoch_record&) {}
};

}  // namespace

TEST_CASE("fit: without callbacks the summary has the sums of a run that reports each update") {
  const auto summary_of = [](auto... callbacks) {
    return on_ranks(3, [&](threads comm) {
      quadratic<fp64> model{.shift = 1.0 * comm.rank()};
      trainer run{model, sgd{}, fixed_rate, ring{comm}};
      toy_loader feed{.rank_count = 3};
      return run.fit(feed, 1.5, callbacks...);
    });
  };
  const auto expected = summary_of(epoch_callback{}), silent = summary_of();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const epoch_record &e = expected[rank].last, &s = silent[rank].last;
    CHECK((s.train.count == 15 && s.train.count == e.train.count));
    // Sums of the same numbers in another order: by rank, then over ranks.
    CHECK(s.train.loss == doctest::Approx(e.train.loss).epsilon(1e-14));
    CHECK((s.last.train.count == 3 && s.last.train.loss == e.last.train.loss));
    CHECK(s.last.grad_norm == e.last.grad_norm);
    CHECK(s.last.info.step == e.last.info.step);
  }
}
