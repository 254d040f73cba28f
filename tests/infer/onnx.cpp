// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/onnx.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/protobuf_reader.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;

namespace {

template <class N>
std::vector<typename N::precision::master> numbered_plane(const N&) {
  std::vector<typename N::precision::master> plane(N::plane_size());
  for (std::size_t i = 0; i < plane.size(); ++i)
    plane[i] = static_cast<typename N::precision::master>(0.25 * static_cast<double>(i));
  return plane;
}

/// Each input of a node is the network's, a constant, or the output of an earlier node.
std::string undefined_inputs(const onnx_reader::model& m) {
  std::set<std::string> defined{"input"};
  for (const auto& [name, constant] : m.constants) defined.insert(name);
  std::string undefined;
  for (const onnx_reader::node& n : m.nodes) {
    for (const std::string& x : n.inputs)
      if (!defined.contains(x)) undefined += x + " ";
    for (const std::string& y : n.outputs)
      if (!defined.insert(y).second) undefined += "twice " + y + " ";
  }
  return undefined;
}

template <class N>
onnx_reader::model exported(const N& net) {
  const auto plane = numbered_plane(net);
  return onnx_reader::model(detail::infer::onnx_bytes(net, std::span(plane)));
}

template <class N>
void check_tensors(const onnx_reader::model& m, const N& net) {
  const auto plane = numbered_plane(net);
  for (const segment& s : N::segments()) {
    INFO(s.name);
    const onnx_reader::tensor& t = m.constants.at(std::string(s.name));
    CHECK(t.type == 1);
    std::vector<std::int64_t> shape;
    for (const int side : s.shape)
      if (side > 0) shape.push_back(side);
    CHECK(t.shape == shape);
    const std::vector<float> expected(plane.begin() + static_cast<std::ptrdiff_t>(s.offset),
                                      plane.begin() + static_cast<std::ptrdiff_t>(s.end()));
    CHECK(onnx_reader::numbers<float>(t.raw) == expected);
  }
}

}  // namespace

TEST_CASE("onnx: CIFAR's network, option A, node for node") {
  const resnet<8, fp32, cpu> net{cpu(1)};
  const onnx_reader::model m = exported(net);
  check_tensors(m, net);
  CHECK(undefined_inputs(m) == "");
  const std::vector<std::string> block{"Conv", "BatchNormalization", "Relu", "Conv",
                                       "BatchNormalization"};
  std::vector<std::string> expected{"Conv", "BatchNormalization", "Relu"};
  for (int stage = 0; stage < 3; ++stage) {
    expected.insert(expected.end(), block.begin(), block.end());
    if (stage > 0) expected.insert(expected.end(), {"Slice", "Pad"});
    expected.insert(expected.end(), {"Add", "Relu"});
  }
  expected.insert(expected.end(), {"GlobalAveragePool", "Flatten", "Gemm", "Identity"});
  CHECK(m.ops() == expected);
  CHECK(m.inputs[0].type == 1);
  CHECK(m.outputs[0].type == 1);
  CHECK(m.inputs[0].shape == std::vector<std::string>{"batch", "3", "32", "32"});
  CHECK(m.outputs[0].name == "logits");
  CHECK(m.outputs[0].shape == std::vector<std::string>{"batch", "10"});

  const onnx_reader::node& conv = m.at("layer2.0.conv1");
  CHECK(conv.integers.at("strides") == std::vector<std::int64_t>{2, 2});
  CHECK(conv.integers.at("pads") == std::vector<std::int64_t>{1, 1, 1, 1});
  CHECK(conv.integers.at("kernel_shape") == std::vector<std::int64_t>{3, 3});
  CHECK(m.at("bn1").floats.at("epsilon") == 1e-5f);
  CHECK(m.at("bn1").inputs == std::vector<std::string>{"conv1", "bn1.weight", "bn1.bias",
                                                       "bn1.running_mean", "bn1.running_var"});
  CHECK(m.at("fc").integers.at("transB") == std::vector<std::int64_t>{1});
  const auto constant = [&](const onnx_reader::node& n, std::size_t k) {
    return onnx_reader::numbers<std::int64_t>(m.constants.at(n.inputs.at(k)).raw);
  };
  const std::string shortcut = m.at("layer2.0.bn2.add").inputs.at(1);
  const onnx_reader::node& pad = m.at(shortcut);
  CHECK(constant(pad, 1) == std::vector<std::int64_t>{0, 8, 0, 0, 0, 8, 0, 0});
  const onnx_reader::node& slice = m.at(pad.inputs.at(0));
  CHECK(slice.inputs.at(0) == "layer1.0.bn2.add.relu");
  CHECK(constant(slice, 2) == std::vector<std::int64_t>{32, 32});
  CHECK(constant(slice, 3) == std::vector<std::int64_t>{2, 3});
  CHECK(constant(slice, 4) == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("onnx: ImageNet's networks, with projections and max pool, from fp64") {
  const resnet<18, fp64, cpu, resnet_options{.image = {3, 64, 64}, .classes = 7}> net{cpu(1)};
  const onnx_reader::model m = exported(net);
  check_tensors(m, net);
  CHECK(undefined_inputs(m) == "");
  const auto count = [&](std::string_view op) { return std::ranges::count(m.ops(), op); };
  CHECK(count("Conv") == 20);
  CHECK(count("BatchNormalization") == 20);
  CHECK(count("Add") == 8);
  CHECK(count("Relu") == 17);
  CHECK(count("MaxPool") == 1);
  CHECK(m.at("layer2.0.bn2.add").inputs ==
        std::vector<std::string>{"layer2.0.bn2", "layer2.0.downsample.1"});
  CHECK(m.at("layer2.0.downsample.0").inputs.at(0) == "layer1.1.bn2.add.relu");
  const onnx_reader::node& pool = m.at(m.at("layer1.0.conv1").inputs.at(0));
  CHECK(pool.op == "MaxPool");
  CHECK(pool.integers.at("pads") == std::vector<std::int64_t>{1, 1, 1, 1});
}

template <Precision P>
using quantized_network =
    network<sequential<convolution<2, 1>, batch_norm<relu>,
                       residual<convolution<2, 3>, batch_norm<>>, global_average_pool, linear<3>>,
            P, cpu, direct, extent{1, 4, 4}, 3>;

TEST_CASE("onnx: int8 has bytes behind QuantizeLinear at each convolution, and needs its ranges") {
  using model_type = quantized_network<int8>;
  const model_type net{cpu(1)};
  std::vector<float> plane(model_type::plane_size(), 0.5F);
  const auto at = [&](std::string_view name) {
    for (const segment& s : model_type::segments())
      if (s.name == name) return std::span(plane).subspan(s.offset, s.size);
    FAIL("no segment ", name);
    return std::span<float>();
  };
  std::ranges::copy(std::vector{0.5F, -1.27F}, at("conv1.weight").begin());
  at("conv1.input_min")[0] = -1;
  at("conv1.input_max")[0] = 3;
  at("0.conv1.input_min")[0] = 0;
  at("0.conv1.input_max")[0] = 2.55F;
  const onnx_reader::model m(detail::infer::onnx_bytes(net, std::span(std::as_const(plane))));
  CHECK(undefined_inputs(m) == "");
  CHECK(m.ops() ==
        std::vector<std::string>{"QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "Conv",
                                 "BatchNormalization", "Relu", "QuantizeLinear", "DequantizeLinear",
                                 "DequantizeLinear", "Conv", "BatchNormalization", "Add", "Relu",
                                 "GlobalAveragePool", "Flatten", "Gemm", "Identity"});
  // The golden range -1 .. 3: s = 0.0156862745, z = 64.
  const onnx_reader::node& q = m.at("conv1.input.quantized");
  const auto scale = onnx_reader::numbers<float>(m.constants.at(q.inputs[1]).raw);
  CHECK(scale == std::vector{0.01568627450980392F});
  CHECK(m.constants.at(q.inputs[2]).type == 2);
  CHECK(m.constants.at(q.inputs[2]).raw == "\x40");
  CHECK(m.at("conv1.input").inputs[0] == "conv1.input.quantized");
  CHECK(m.at("conv1").inputs ==
        std::vector<std::string>{"conv1.input", "conv1.weight.dequantized"});
  CHECK(m.at("0.conv1.input.quantized").inputs[0] == "bn1.relu");
  // Each filter of one weight is its scale times 127.
  const onnx_reader::node& w = m.at("conv1.weight.dequantized");
  CHECK(w.integers.at("axis") == std::vector<std::int64_t>{0});
  CHECK(m.constants.at("conv1.weight").type == 3);
  CHECK(m.constants.at("conv1.weight").shape == std::vector<std::int64_t>{2, 1, 1, 1});
  CHECK(m.constants.at("conv1.weight").raw == "\x7f\x81");
  CHECK(onnx_reader::numbers<float>(m.constants.at(w.inputs[1]).raw) ==
        std::vector{0.5F / 127, 1.27F / 127});
  CHECK(m.constants.at(w.inputs[2]).raw == std::string(2, '\0'));
  CHECK(m.constants.at("fc.weight").type == 1);

  at("0.conv1.input_min")[0] = 3;  // above the largest: no range
  CHECK_THROWS_WITH_AS((void)detail::infer::onnx_bytes(net, std::span(std::as_const(plane))),
                       doctest::Contains("layer \"0.conv1\" has no range"), error);
}

TEST_CASE("onnx: weights of 4 and 2 bits are bytes of so few values, with their scales") {
  const std::vector<float> w{0.7F, 0.42F, 0.28F, -0.14F, -0.7F};  // 1, 0.6, 0.4, -0.2, -1 times 0.7
  const auto check = [&]<Precision P>(P, const std::vector<std::int8_t>& expected, double steps) {
    using model_type = quantized_network<P>;
    const model_type net{cpu(1)};
    std::vector<float> plane(model_type::plane_size());
    for (const segment& s : model_type::segments()) {
      const auto numbers = std::span(plane).subspan(s.offset, s.size);
      if (s.name.ends_with("input_max") || s.name.ends_with("running_var"))
        std::ranges::fill(numbers, 1.0F);
      if (s.name == "0.conv1.weight")  // (2, 2, 3, 3)
        for (const std::size_t filter : {0U, 1U})
          std::ranges::copy(w, numbers.subspan(18 * filter).begin());
    }
    const onnx_reader::model m(detail::infer::onnx_bytes(net, std::span(std::as_const(plane))));
    std::vector<std::int8_t> bytes(36);
    std::ranges::copy(expected, bytes.begin());
    std::ranges::copy(expected, bytes.begin() + 18);
    const onnx_reader::node& n = m.at("0.conv1.weight.dequantized");
    CHECK(m.constants.at("0.conv1.weight").type == 3);
    CHECK(onnx_reader::numbers<std::int8_t>(m.constants.at("0.conv1.weight").raw) == bytes);
    CHECK(onnx_reader::numbers<float>(m.constants.at(n.inputs[1]).raw) ==
          std::vector(2, static_cast<float>(0.7F / steps)));
  };
  check(low_bit_weights<4>{}, {7, 4, 3, -1, -7}, 7);
  check(low_bit_weights<2>{}, {1, 1, 0, 0, -1}, 1);
}

TEST_CASE("onnx: numbers that are not finite are refused by the layer's name") {
  const auto check = []<class N>(const N& net) {
    using real = typename N::precision::master;
    auto good = numbered_plane(net);
    for (const segment& s : N::segments())
      if (s.name.ends_with("input_min")) good[s.offset] = -1;
    CHECK(detail::infer::onnx_bytes(net, std::span(std::as_const(good))).size() > 1000);
    std::size_t refused = 0;
    for (const segment& s : N::segments())
      for (const real bad :
           {std::numeric_limits<real>::quiet_NaN(), std::numeric_limits<real>::infinity(),
            -std::numeric_limits<real>::infinity(), real{-1}, real(-1e-4)}) {
        if (bad < 0 && std::isfinite(bad) && !s.name.ends_with("running_var")) continue;
        CAPTURE(s.name);
        CAPTURE(bad);
        auto plane = good;
        plane[s.offset + s.size / 2] = bad;
        const std::string layer(s.name.substr(0, s.name.rfind('.')));
        CHECK_THROWS_WITH_AS((void)detail::infer::onnx_bytes(net, std::span(std::as_const(plane))),
                             doctest::Contains(("layer \"" + layer + "\"").c_str()), error);
        ++refused;
      }
    CHECK(refused > 100);
  };
  check(resnet<8, int8, cpu>{cpu(1)});
  check(resnet<8, fp32, cpu>{cpu(1)});
  check(resnet<8, fp64, cpu>{cpu(1)});
  const resnet<8, fp64, cpu> wide{cpu(1)};
  auto plane = numbered_plane(wide);
  plane.back() = 1e39;  // no float
  CHECK_THROWS_AS((void)detail::infer::onnx_bytes(wide, std::span(std::as_const(plane))), error);
}

TEST_CASE("write_onnx: the file has the graph's bytes; a plane that is too small is refused") {
  const support::folder folder;
  const resnet<8, fp32, cpu> net{cpu(1)};
  std::vector<float> plane = numbered_plane(net);
  write_onnx(folder.file("made/net.onnx"), net, {plane.data(), plane.size()});
  const support::file_bytes bytes = folder.get("made/net.onnx");
  CHECK(std::string(bytes.begin(), bytes.end()) ==
        detail::infer::onnx_bytes(net, std::span(std::as_const(plane))));
  CHECK_THROWS_WITH_AS(write_onnx(folder.file("net.onnx"), net, {plane.data(), plane.size() - 1}),
                       doctest::Contains("smaller than the network's table"), usage_error);
}
