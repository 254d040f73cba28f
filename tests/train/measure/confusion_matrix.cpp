// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/measure/confusion_matrix.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("confusion_matrix: rows are classes, columns predictions") {
  confusion_matrix m(3);
  m.add(0, 0, 4);
  m.add(0, 2);
  m.add(1, 2, 3);
  m.add(2, 2, 2);
  CHECK(m(0, 2) == 1);
  CHECK(m(2, 0) == 0);
  CHECK(m.samples() == 10);
  CHECK(m.accuracy() == 0.6);
  CHECK(m.recall(0) == 0.8);
  CHECK(m.precision(2) == doctest::Approx(2.0 / 6));
  CHECK(std::isnan(m.precision(1)));
  CHECK_THROWS_AS(m.add(3, 0), usage_error);
  CHECK_THROWS_AS((void)m(0, -1), usage_error);
  for (const int none : {0, -1, std::numeric_limits<int>::min()})
    CHECK_THROWS_AS(confusion_matrix{none}, usage_error);
}

namespace {

using small =
    network<sequential<global_average_pool, linear<5>>, bf16, cpu, reference, extent{3, 4, 4}, 5>;

}  // namespace

TEST_CASE("confusion_matrix::from: each sample once, as the metrics count them") {
  const synthetic images{.extent = {3, 4, 4}, .classes = 5, .samples = 23, .seed = 3};
  const auto labels = [&](int k) {
    std::vector<std::uint8_t> pixels(images.image().size());
    std::int64_t count = 0;
    for (std::size_t i = 0; i < images.size(); ++i) count += images.read(i, pixels) == k;
    return count;
  };
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    const auto all = on_ranks(ranks, [&](threads comm) {
      small net{cpu(1)};
      trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
      const metrics expected = run.evaluate(images, {}, 4);
      const confusion_matrix m = confusion_matrix::from(run, images, {}, 4);
      CHECK(m.samples() == 23);
      std::int64_t right = 0;
      for (int k = 0; k < 5; ++k) {
        right += m(k, k);
        std::int64_t of_class = 0;
        for (int p = 0; p < 5; ++p) of_class += m(k, p);
        CHECK(of_class == labels(k));
      }
      CHECK(right == expected.top1);
      return m(0, 1) + 100 * m(1, 0);
    });
    for (const auto n : all) CHECK(n == all[0]);
  }
}

TEST_CASE("confusion_matrix::from: what is refused on one rank ends it on every rank") {
  const synthetic images{.extent = {3, 4, 4}, .classes = 5, .samples = 23, .seed = 3};
  CHECK(contains(error_at_peer([&](threads comm) {
                   small net{cpu(1)};
                   trainer run{net, sgd{}, constant{.learning_rate = 0.1}, ring{comm}};
                   (void)confusion_matrix::from(run, images, {}, comm.rank() == 0 ? 0 : 4);
                 }),
                 "evaluate: a batch has at least one sample"));
}
