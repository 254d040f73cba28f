// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/batch_norm_problem.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

TEST_CASE("batch_norm_problem: ghost batches cover the samples, and none is empty") {
  for (const int ghost_batch : {0, 1, 3, 7, 9})
    for (const int samples : {1, 6, 7, 8}) {
      const batch_norm_problem p{{5, 2, 2}, ghost_batch};
      const std::size_t n = p.ghost_batches(samples), size = p.ghost_batch_size(samples);
      CHECK(n * size >= static_cast<std::size_t>(samples));
      CHECK((n - 1) * size < static_cast<std::size_t>(samples));
    }
  CHECK(batch_norm_problem{{5, 2, 2}}.ghost_batches(8) == 1);
  CHECK(batch_norm_problem{{5, 2, 2}, 3}.ghost_batches(0) == 0);
}

TEST_CASE(
    "batch_norm_problem: rows are whole blocks, and no samples have the rows of one ghost batch") {
  const batch_norm_problem p{{5, 2, 2}, 3};
  CHECK(p.padded_channels(1) == 5);
  CHECK(p.padded_channels(4) == 8);
  CHECK(p.saved_size(7, 4) == 3 * 5 * 8);
  CHECK(p.saved_size(0, 4) == 5 * 8);
  CHECK(p.scratch_size(7, 4) == (2 * 7 + 2) * (8 + 8) + 1);
}

TEST_CASE("batch_norm_problem: an empty allreduce hook leaves the sums unchanged") {
  double sums[] = {1, 2};
  statistics_allreduce allreduce;
  CHECK(!allreduce);
  allreduce(sums);
  CHECK(sums[1] == 2);
  double received = 0;
  allreduce = {[](void* context, std::span<double> s) { *static_cast<double*>(context) = s[1]; },
               &received};
  CHECK(allreduce);
  allreduce(sums);
  CHECK(received == 2);
}
