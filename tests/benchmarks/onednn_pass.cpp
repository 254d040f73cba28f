// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "benchmarks/onednn/pass.hpp"

using namespace cordee;
using namespace cordee::detail::ops;

using pass = onednn_pass<8>;

TEST_CASE("onednn_pass: one cached primitive per direction, problem and number of samples") {
  const convolution_problem p{{16, 6, 6}, 16, 3, 1, 1};
  CHECK(&pass::get(pass::fprop, p, 2) == &pass::get(pass::fprop, p, 2));
  CHECK(&pass::get(pass::fprop, p, 2) != &pass::get(pass::fprop, p, 3));
  CHECK(&pass::get(pass::fprop, p, 2) != &pass::get(pass::dgrad, p, 2));
  CHECK(pass::get(pass::fprop, p, 2).size() == pass::get(pass::fprop, p, 1).size());
  CHECK(pass::get(pass::fprop, p, 1).size() >= p.weights());
}

TEST_CASE("single_thread_scope: restores the number of OpenMP threads") {
  const int before = omp_get_max_threads();
  omp_set_num_threads(5);
  {
    const single_thread_scope scope;
    CHECK(omp_get_max_threads() == 1);
  }
  CHECK(omp_get_max_threads() == 5);
  omp_set_num_threads(before);
}
