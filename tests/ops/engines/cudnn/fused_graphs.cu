// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The values of cuDNN's fused graphs on a GPU, by the first plans.
#include <string>

#include <doctest/doctest.h>

#include "tests/support/fused_on_gpu.cuh"

using namespace cordee;
using detail::ops::fused_graph;

TEST_CASE("fused_graphs on a GPU: the first plans' values are those of their equations") {
  const support::fused_target target;
  int plans = 0;
  for (const fused_graph kind : detail::ops::fused_graphs)
    for (const convolution_problem& p : bench::fused_shapes) {
      if (!bench::has_fused_graph(kind, p)) continue;
      CAPTURE(describe(kind));
      CAPTURE(describe(p.in));
      CAPTURE(p.filters);
      support::fused_on_gpu graph(kind, p, 2, target);
      for (const auto& plan : detail::ops::cudnn_fused_plans(graph.graph(), target.get(), 4)) {
        CHECK(graph.error_of(plan, 200) == "");
        ++plans;
      }
    }
  CHECK(plans > 0);
}
