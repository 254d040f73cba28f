// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/core/min_max.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#ifdef _STL_ALGO_H
#define ALGORITHMS_INCLUDED true
#else
#define ALGORITHMS_INCLUDED false
#endif
#if defined(_GLIBCXX_NUMERIC_LIMITS) || defined(_GLIBCXX_TUPLE) || defined(_GLIBCXX_SYSTEM_ERROR)
#define RARELY_USED_INCLUDED true
#else
#define RARELY_USED_INCLUDED false
#endif

#include <doctest/doctest.h>

TEST_CASE("min_max: what a minimal trainer includes declares no algorithms beyond it") {
  CHECK(std::min(3, 2) == 2);
  CHECK(std::max(3, 2) == 3);
  CHECK_FALSE(ALGORITHMS_INCLUDED);
}

TEST_CASE("a minimal trainer includes neither <limits> nor <tuple> nor <system_error>") {
  CHECK_FALSE(RARELY_USED_INCLUDED);
}
