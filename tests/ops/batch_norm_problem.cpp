// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/batch_norm_problem.hpp>

using namespace cordee;

TEST_CASE("batch_norm_problem: groups cover the samples, and none is empty") {
  for (const int group : {0, 1, 3, 7, 9})
    for (const int samples : {1, 6, 7, 8}) {
      const batch_norm_problem at{{5, 2, 2}, group};
      const std::size_t n = at.groups(samples), size = at.group_size(samples);
      CHECK(n * size >= static_cast<std::size_t>(samples));
      CHECK((n - 1) * size < static_cast<std::size_t>(samples));
    }
  CHECK(batch_norm_problem{{5, 2, 2}}.groups(8) == 1);
  CHECK(batch_norm_problem{{5, 2, 2}, 3}.groups(0) == 0);
}

TEST_CASE("batch_norm_problem: rows are whole blocks, and there is a group's though none is here") {
  const batch_norm_problem at{{5, 2, 2}, 3};
  CHECK(at.lanes_of(1) == 5);
  CHECK(at.lanes_of(4) == 8);
  CHECK(at.saved(7, 4) == 3 * 5 * 8);
  CHECK(at.saved(0, 4) == 5 * 8);
  CHECK(at.scratch(7, 4) == (2 * 7 + 2) * (8 + 8) + 1);
}

TEST_CASE("batch_norm_problem: a hook that is empty leaves what it is given") {
  double sums[] = {1, 2};
  combine_sums combine;
  CHECK(!combine);
  combine(sums);
  CHECK(sums[1] == 2);
  double asked = 0;
  combine = {[](void* context, std::span<double> of) { *static_cast<double*>(context) = of[1]; },
             &asked};
  CHECK(combine);
  combine(sums);
  CHECK(asked == 2);
}
