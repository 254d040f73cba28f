// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/onnx/graph.hpp>

#include "tests/infer/protobuf_reader.hpp"

using namespace cordee::detail::infer;

TEST_CASE("onnx_graph: nodes, constants, inputs and outputs are read back as they were added") {
  onnx_graph graph;
  graph.add_input("x", {3, 5, 7});
  const std::string w = graph.vector("w", {1.5f, -2.0f}),
                    n = graph.vector("n", {std::int64_t{-1}, std::int64_t{1} << 40});
  const std::string i = graph.vector("i", {std::int16_t{-3}}),
                    u = graph.vector("u", {std::uint64_t{1} << 63});
  const float scalar = 0.25f;
  graph.constant<float>("s", {}, {&scalar, 1});
  const std::string y =
      graph.add("Op", "y", {"x", w, n},
                onnx_attributes{}.integer("axis", -1).number("e", 0.5f).integers("p", {0, 300}));
  CHECK(y == "y");
  graph.add_output(y, {10});
  CHECK(graph.cast<std::uint64_t>("c", y) == "c");
  graph.add("Shift", "z", {"c", u}, onnx_attributes{}.text("direction", "RIGHT"));
  graph.add_input<std::uint8_t>("bytes", {4});
  graph.add_output<std::int32_t>("z", {2});
  graph.add_metadata("key", "value");

  const onnx_reader::model read(graph.encoded());
  CHECK(read.ir_version == 8);
  CHECK(read.opset == 17);
  REQUIRE(read.nodes.size() == 3);
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
  CHECK(read.nodes[1].op == "Cast");
  CHECK(read.nodes[1].integers.at("to") == std::vector<std::int64_t>{13});
  CHECK(read.nodes[2].texts.at("direction") == "RIGHT");
  CHECK(read.constants.at(i).type == 5);
  CHECK(onnx_reader::numbers<std::int16_t>(read.constants.at("i").raw) ==
        std::vector<std::int16_t>{-3});
  CHECK(read.constants.at(u).type == 13);
  CHECK(onnx_reader::numbers<std::uint64_t>(read.constants.at("u").raw) ==
        std::vector{std::uint64_t{1} << 63});
  CHECK(read.metadata == std::map<std::string, std::string>{{"key", "value"}});
  REQUIRE(read.inputs.size() == 2);
  CHECK(read.inputs[0].type == 1);
  CHECK(read.inputs[1].type == 2);
  CHECK(read.inputs[0].shape == std::vector<std::string>{"batch", "3", "5", "7"});
  REQUIRE(read.outputs.size() == 2);
  CHECK(read.outputs[0].type == 1);
  CHECK(read.outputs[1].type == 6);
  CHECK(read.outputs[0].name == "y");
  CHECK(read.outputs[0].shape == std::vector<std::string>{"batch", "10"});
}
