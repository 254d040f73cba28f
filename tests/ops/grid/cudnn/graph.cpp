// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a graph computes is seen where it is executed (desk.cpp, convolution.cpp); here that cuDNN
// takes it, and what it says of one that makes no sense.
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/graph.hpp>

#include "tests/support/described.hpp"

using namespace cordee;
using detail::convolution_pass;
using detail::cudnn_graph;
using detail::cudnn_question;

TEST_CASE("graph: cuDNN takes every pass of a layer, and knows engines for it") {
  const auto device = support::h200();
  for (const auto pass :
       {convolution_pass::fprop, convolution_pass::dgrad, convolution_pass::wgrad})
    for (const bool adds : {false, true}) {
      const cudnn_question q{{{16, 9, 7}, 32, 3, 2, 1}, 5, pass, CUDNN_DATA_HALF, adds};
      CAPTURE(to_text(q));
      CHECK(cudnn_graph(q, device).get().integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT) >
            0);
    }
}

TEST_CASE("graph: a window that is larger than its image is an error of cuDNN's") {
  std::string said;
  try {
    const cudnn_question q{{{16, 3, 3}, 16, 7, 1, 0}, 5, {}, CUDNN_DATA_HALF};
    (void)cudnn_graph(q, support::h200());
  } catch (const error& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.find("cudnn: cudnnBackend") == 0);
}
