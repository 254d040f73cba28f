// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// That cuDNN accepts the graphs and reports errors; what they compute is tested in engine.cpp and
// plan_cache.cpp.
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/graph.hpp>

#include "tests/support/described_gpus.hpp"

using namespace cordee;
using detail::ops::convolution_pass;
using detail::ops::cudnn_graph;
using detail::ops::cudnn_plan_key;

TEST_CASE("graph: cuDNN accepts every pass of a layer and has engines for it") {
  const auto device = support::h200();
  for (const auto pass :
       {convolution_pass::fprop, convolution_pass::dgrad, convolution_pass::wgrad})
    for (const bool accumulate : {false, true}) {
      const cudnn_plan_key q{{{16, 9, 7}, 32, 3, 2, 1}, 5, pass, CUDNN_DATA_HALF, accumulate};
      CAPTURE(describe(q));
      CHECK(cudnn_graph(q, device).get().int64(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT) > 0);
    }
}

TEST_CASE("graph: a window larger than the padded image is an error from cuDNN") {
  std::string message;
  try {
    const cudnn_plan_key q{{{16, 3, 3}, 16, 7, 1, 0}, 5, {}, CUDNN_DATA_HALF};
    (void)cudnn_graph(q, support::h200());
  } catch (const error& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.find("cudnn: cudnnBackend") == 0);
}
