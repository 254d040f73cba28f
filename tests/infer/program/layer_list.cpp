// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/infer/program/layer_list.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

template <class N>
layer_list listed() {
  return list_layers(static_cast<const N*>(nullptr));
}

/// A letter for each layer, with its input, residual and r for a ReLU.
std::string summary(const layer_list& list) {
  constexpr std::string_view letters = "CPSMLN";
  std::string out;
  for (const listed_layer& l : list.layers()) {
    out += letters[l.problem.index()];
    out += std::to_string(l.input);
    if (l.residual >= 0) out += "+" + std::to_string(l.residual);
    out += l.relu ? "r " : " ";
  }
  return out;
}

/// The names of a layer's tensors.
std::string tensors(const listed_layer& l) {
  std::string out(l.name);
  for (const segment* s : {l.weights, l.bias, l.range, l.norm, l.statistics})
    if (s != nullptr) out.append(" ").append(s->name);
  return out;
}

}  // namespace

TEST_CASE(
    "layer_list: a CIFAR network, whose shortcuts come before the convolutions that add them") {
  const auto a = listed<resnet<8, fp32, cpu>>();
  CHECK(summary(a) == "C-1r C0r C1+0r C2r S2 C3+4r C5r S5 C6+7r M8 L9 ");
  const auto b = listed<resnet<8, fp32, cpu, resnet_options{.shortcut = shortcut::b}>>();
  CHECK(summary(b) == "C-1r C0r C1+0r C2r C2 C3+4r C5r C5 C6+7r M8 L9 ");
  CHECK(tensors(b.layers()[4]) ==
        "layer2.0.downsample.0 layer2.0.downsample.0.weight layer2.0.downsample.1.weight "
        "layer2.0.downsample.1.running_mean");
  CHECK(tensors(b.layers()[5]) ==
        "layer2.0.conv2 layer2.0.conv2.weight layer2.0.bn2.weight layer2.0.bn2.running_mean");
}

TEST_CASE("layer_list: an ImageNet network in int8, with the ranges of its inputs") {
  const auto list = listed<resnet<18, int8, cpu, resnet_options{.dropout = true}>>();
  CHECK(summary(list).starts_with("C-1r P0 C1r C2+1r C3r C4+3r C5r C5 C6+7r C8r "));
  CHECK(summary(list).ends_with("M" + std::to_string(list.layers().size() - 3) + " L" +
                                std::to_string(list.layers().size() - 2) + " "));
  CHECK(tensors(list.layers()[0]) ==
        "conv1 conv1.weight conv1.input_min bn1.weight bn1.running_mean");
  CHECK(tensors(list.layers()[7]) ==
        "layer2.0.downsample.0 layer2.0.downsample.0.weight layer2.0.downsample.0.input_min "
        "layer2.0.downsample.1.weight layer2.0.downsample.1.running_mean");
  CHECK(tensors(list.layers().back()) == "fc fc.weight fc.bias");
  CHECK(std::get<convolution_problem>(list.layers()[2].problem) ==
        convolution_problem{{64, 56, 56}, 64, 3, 1, 1});
}

TEST_CASE("layer_list: bottlenecks") {
  const auto list = listed<resnet<50, fp32, cpu>>();
  CHECK(summary(list).starts_with("C-1r P0 C1r C2r C1 C3+4r C5r C6r C7+5r "));
  CHECK(tensors(list.layers()[5]) ==
        "layer1.0.conv3 layer1.0.conv3.weight layer1.0.bn3.weight layer1.0.bn3.running_mean");
}

namespace {

template <Layer... Layers>
std::string refusal() {
  using model = network<sequential<Layers..., global_average_pool, linear<2>>, fp32, cpu, direct,
                        extent{4, 8, 8}, 2>;
  try {
    static_cast<void>(listed<model>());
    static_cast<void>(list_layers(static_cast<const model*>(nullptr), false));
  } catch (const usage_error& e) {
    return e.what();
  }
  return "none";
}
template <class Shortcut>
using block = residual<convolution<4>, batch_norm<>, Shortcut>;

}  // namespace

TEST_CASE("layer_list: what has no form in integers is refused in a sentence") {
  const auto refused = [](const std::string& message, std::string_view sentence) {
    CHECK_MESSAGE(message.starts_with("infer: " + std::string(sentence)), message);
  };
  CHECK(refusal<convolution<4>, batch_norm<>, relu>() == "none");
  CHECK(refusal<convolution<4>, block<identity>>() == "none");
  refused(refusal<convolution<4>, max_pool<>, relu>(),
          "a ReLU that does not directly follow a convolution has");
  refused(refusal<convolution<4>, relu, relu>(),
          "a ReLU that does not directly follow a convolution has");
  refused(refusal<convolution<4>, block<identity>, relu>(),
          "a ReLU that does not directly follow a convolution has");
  refused(refusal<relu, convolution<4>>(),
          "a ReLU that does not directly follow a convolution has");
  refused(refusal<convolution<4>, relu, batch_norm<>>(),
          "a batch norm that does not directly follow a convolution has");
  refused(refusal<convolution<4>, max_pool<>, batch_norm<>>(),
          "a batch norm that does not directly follow a convolution has");
  refused(refusal<convolution<4>, block<identity>, batch_norm<>>(),
          "a batch norm that does not directly follow a convolution has");
  refused(refusal<convolution<4>, batch_norm<>, batch_norm<>>(), "two batch norms in a row have");
  const std::string twice = "an output that is read before its batch norm or ReLU as well";
  using before = sequential<batch_norm<relu>, convolution<4>>;
  refused(refusal<convolution<4>, residual<before, batch_norm<>>>(), twice);
  refused(refusal<convolution<4>, residual<before, batch_norm<>, projection<4, 1>>>(), twice);
  refused(refusal<convolution<4>, residual<sequential<relu, convolution<4>>, batch_norm<>>>(),
          twice);
  refused(refusal<convolution<4>, residual<identity, batch_norm<>>>(), twice);
  refused(refusal<block<identity>>(), "a network begins with a convolution, not with a residual");
  refused(refusal<block<projection<4, 1>>>(),
          "a network begins with a convolution, not with a residual");
}

TEST_CASE("layer_list: a block whose shortcut has more layers than one") {
  using wide = sequential<convolution<6, 1>, batch_norm<relu>, convolution<4, 1>, batch_norm<>>;
  const auto list = listed<network<
      sequential<convolution<4>, block<wide>, block<identity>, global_average_pool, linear<2>>,
      fp32, cpu, direct, extent{1, 8, 8}, 2>>();
  CHECK(summary(list) == "C-1 C0r C1 C0+2r C3+3r M4 L5 ");
}

TEST_CASE("layer_list: batch norms that are not folded are layers, which rectify and add") {
  const auto unfolded = []<class N>(const N*) {
    return list_layers(static_cast<const N*>(nullptr), false);
  };
  const auto list = unfolded(
      static_cast<const resnet<8, fp32, cpu, resnet_options{.shortcut = shortcut::b}>*>(nullptr));
  CHECK(summary(list).starts_with("C-1 N0r C1 N2r C3 N4+1r C5 N6r C7 C5 N9 N8+10r C11 "));
  CHECK(tensors(list.layers()[11]) == "layer2.0.bn2 layer2.0.bn2.weight layer2.0.bn2.running_mean");
  CHECK(tensors(list.layers()[8]) == "layer2.0.conv2 layer2.0.conv2.weight");
  using twice = network<
      sequential<convolution<4>, batch_norm<>, batch_norm<>, global_average_pool, linear<2>>, fp32,
      cpu, direct, extent{1, 8, 8}, 2>;
  CHECK_THROWS_AS((void)unfolded(static_cast<const twice*>(nullptr)), usage_error);
}

TEST_CASE("layer_list: a shortcut with a block of its own reads what it read before it moved") {
  using cut = sequential<convolution<4, 1>, block<identity>>;
  const auto list =
      listed<network<sequential<convolution<4>, block<cut>, global_average_pool, linear<2>>, fp32,
                     cpu, direct, extent{1, 8, 8}, 2>>();
  CHECK(summary(list) == "C-1 C0 C1+1r C0+2r M3 L4 ");
}
