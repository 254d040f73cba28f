// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// In whole networks: tests/infer/onnx_integers.cpp.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/onnx/sums.hpp>

#include "tests/infer/onnx_interpreter.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

TEST_CASE("onnx_sums: a convolution whose sums pass 2^24 is divided into groups of channels") {
  integer_convolution c;
  c.problem = {{1024, 1, 1}, 2, 1, 1, 0};
  c.zero_point = 3;
  c.factors.resize(2);
  c.weights.assign(2 * 1024, 127);
  std::fill(c.weights.begin(), c.weights.begin() + 1024, static_cast<std::int8_t>(-1));
  CHECK(exact_groups(c) == std::vector{0, 518, 1024});  // 255 * 127 * 518 < 2^24

  onnx_graph graph;
  graph.add_input<std::uint8_t>("x", {1024, 1, 1});
  graph.add_output<std::int32_t>(add_convolution_sums(graph, c, "conv", "x"), {2, 1, 1});
  onnx_reader::integer_tensor in(2, {1, 1024, 1, 1});
  std::fill(in.all.begin(), in.all.end(), 255);
  CHECK(onnx_reader::interpreter(onnx_reader::model(graph.encoded())).run(in).all ==
        std::vector<std::int64_t>{-252 * 1024, 252 * 127 * 1024});
}

TEST_CASE("onnx_sums: means of either sign round as the layer's") {
  for (const std::int64_t pixels : {1, 3, 49, 64}) {
    const std::int64_t low = -(1 << 23), high = 1 << 23;
    std::vector<std::int64_t> x, expected;
    for (const std::int64_t start : {low, high - 2 * pixels, std::int64_t{-5}}) {
      std::int64_t sum = pixels / 2;
      for (std::int64_t i = 0; i < pixels; ++i) {
        x.push_back(start + 2 * i % 7);
        sum += x.back();
      }
      const std::int64_t raised = sum + (pixels << 24);
      expected.push_back(raised / pixels - (1 << 24));
    }
    onnx_graph graph;
    const int side = static_cast<int>(pixels);
    graph.add_input<std::int32_t>("x", {3, 1, side});
    graph.add_output<std::int32_t>(add_mean(graph, "mean", {"x", low, high}, pixels).name,
                                   {3, 1, 1});
    const onnx_reader::model read(graph.encoded());
    onnx_reader::integer_tensor in(6, {1, 3, 1, pixels});
    in.all = x;
    for (const bool floats : {false, true})
      CHECK(onnx_reader::interpreter(read, floats).run(in).all == expected);
  }
}
