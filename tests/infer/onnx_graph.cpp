// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/infer/onnx_graph.hpp>

#include "tests/infer/protobuf_reader.hpp"

using namespace cordee::detail::infer;

TEST_CASE("onnx_graph: nodes, constants, inputs and outputs are read back as they were added") {
  onnx_graph graph;
  graph.add_input("x", {3, 5, 7});
  const std::string w = graph.vector("w", {1.5f, -2.0f}),
                    n = graph.vector("n", {std::int64_t{-1}, std::int64_t{1} << 40});
  const float scalar = 0.25f;
  graph.constant<float>("s", {}, {&scalar, 1});
  const std::string y =
      graph.add("Op", "y", {"x", w, n},
                onnx_attributes{}.integer("axis", -1).number("e", 0.5f).integers("p", {0, 300}));
  CHECK(y == "y");
  graph.add_output(y, {10});

  const onnx_reader::model read(graph.encoded());
  CHECK(read.ir_version == 8);
  CHECK(read.opset == 17);
  REQUIRE(read.nodes.size() == 1);
  CHECK(read.nodes[0].op == "Op");
  CHECK(read.nodes[0].inputs == std::vector<std::string>{"x", "w", "n"});
  CHECK(read.nodes[0].outputs == std::vector<std::string>{"y"});
  CHECK(read.nodes[0].integers.at("axis") == std::vector<std::int64_t>{-1});
  CHECK(read.nodes[0].integers.at("p") == std::vector<std::int64_t>{0, 300});
  CHECK(read.nodes[0].floats.at("e") == 0.5f);
  CHECK(read.constants.at("w").shape == std::vector<std::int64_t>{2});
  CHECK(onnx_reader::numbers<float>(read.constants.at("w").raw) == std::vector{1.5f, -2.0f});
  CHECK(read.constants.at("n").type == 7);
  CHECK(onnx_reader::numbers<std::int64_t>(read.constants.at("n").raw) ==
        std::vector{std::int64_t{-1}, std::int64_t{1} << 40});
  CHECK(read.constants.at("s").shape.empty());
  REQUIRE(read.inputs.size() == 1);
  CHECK(read.inputs[0].shape == std::vector<std::string>{"batch", "3", "5", "7"});
  REQUIRE(read.outputs.size() == 1);
  CHECK(read.outputs[0].name == "y");
  CHECK(read.outputs[0].shape == std::vector<std::string>{"batch", "10"});
}
