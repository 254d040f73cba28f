// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/train/step/bucket_exchange.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A reducer of one worker that records the buckets it gets.
struct recording_solo : solo {
  std::vector<int>* mixed = nullptr;

  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> b, const step_info&, typename D::stream) const {
    mixed->push_back(b.layout->index);
  }
};

/// Four segments in four buckets, the last segment in the first bucket.
struct exchange_fixture {
  using optimizer = lars;
  quadratic<fp64> model;
  lars lars_optimizer{};
  std::vector<int> mixed;
  recording_solo reducer{{}, &mixed};
  detail::train::planes<double, cpu, lars, recording_solo> memory{cpu(1), t4_table};
  detail::train::loss_scale scale{};
  detail::train::gradient_scaler<fp64, cpu> scaler{cpu(1), {}, nullptr, scale, {}};
  detail::train::bucket_exchange<quadratic<fp64>, lars, recording_solo> exchange;

  explicit exchange_fixture(bool overlap)
      : exchange(model, lars_optimizer, reducer, memory, scaler,
                 {.bucket_bytes = 64 * sizeof(double), .overlap = overlap}) {
    exchange.begin_step({}, {});
  }
};

using indices = std::vector<int>;

}  // namespace

TEST_CASE("bucket_exchange: a bucket is posted when its first segment is ready") {
  exchange_fixture f(true);
  REQUIRE(f.exchange.buckets().size() == 4);
  f.exchange.segments_ready(3, {});
  CHECK(f.mixed == indices{0});
  f.exchange.segments_ready(1, {});
  CHECK(f.mixed == indices{0, 1, 2});
  CHECK_THROWS_AS(f.exchange.expect_all_ready(), usage_error);
  f.exchange.segments_ready(0, {});
  f.exchange.expect_all_ready();
  f.exchange.post_rest(true, {});
  CHECK(f.mixed == indices{0, 1, 2, 3});
  CHECK(f.exchange.posted());
  f.exchange.begin_step({}, {});
  CHECK_FALSE(f.exchange.posted());
}

TEST_CASE("bucket_exchange: without overlap buckets are posted together, after backward") {
  exchange_fixture f(false);
  f.exchange.segments_ready(0, {});
  CHECK(f.mixed.empty());
  CHECK_FALSE(f.exchange.posted());
  f.exchange.post_rest(true, {});
  CHECK(f.mixed == indices{0, 1, 2, 3});
}

TEST_CASE("bucket_exchange: a replayed pass has made every segment ready") {
  for (const bool overlap : {true, false})
    for (const bool rest_too : {true, false}) {
      exchange_fixture f(overlap);
      f.exchange.replayed(rest_too);
      f.exchange.expect_all_ready();
      CHECK(f.exchange.posted() == (overlap || rest_too));
      CHECK(f.mixed.empty());
    }
}
