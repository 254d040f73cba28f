// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <doctest/doctest.h>

#include <cordee/ops/linear_problem.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

static_assert(std::is_aggregate_v<linear_problem> && std::is_trivially_copyable_v<linear_problem>);

TEST_CASE("linear_problem: empty by default") {
  constexpr linear_problem p;
  CHECK((p.features == 0 && p.outputs == 0 && p.stride == 0));
}
