// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The files' graphs, run by an interpreter that knows integers alone, give the logits of the
// networks.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/onnx_integers.hpp>

#include "tests/infer/onnx_interpreter.hpp"
#include "tests/infer/refused_program.hpp"
#include "tests/infer/saved_network.hpp"

using namespace cordee;
using namespace support;

namespace {

std::string file_of(const integer_network& net) {
  return detail::infer::onnx_bytes(net.program(), net.logit_step());
}

/// The interpreter's logits of random images, of all bytes, beside the network's; the operators.
std::multiset<std::string> check_logits(integer_network& net, std::size_t samples) {
  const extent& image = net.image();
  std::vector<std::uint8_t> pixels(samples * image.size());
  random_sequence draw(9, purpose::test, 0, 0);
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(draw.below(256));
  for (std::size_t i = 0; i < image.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 256);
  std::vector<std::int32_t> logits(samples * net.classes());
  net.run(pixels, logits);

  const onnx_reader::model m(file_of(net));
  CHECK(std::strtod(m.metadata.at("logit_step").c_str(), nullptr) == net.logit_step());
  CHECK(m.inputs.at(0).shape == std::vector<std::string>{"batch", std::to_string(image.channels),
                                                         std::to_string(image.height),
                                                         std::to_string(image.width)});
  CHECK(m.outputs.at(0).name == "logits");
  CHECK(m.outputs.at(0).shape == std::vector<std::string>{"batch", std::to_string(net.classes())});
  onnx_reader::integer_tensor in(
      2, {static_cast<std::int64_t>(samples), image.channels, image.height, image.width});
  in.all.assign(pixels.begin(), pixels.end());
  const onnx_reader::integer_tensor out = onnx_reader::interpreter(m).run(in);
  CHECK(onnx_reader::interpreter(m, true).run(in).all == out.all);
  CHECK(out.type == 6);
  CHECK(out.shape == std::vector<std::int64_t>{static_cast<std::int64_t>(samples),
                                               static_cast<std::int64_t>(net.classes())});
  CHECK(out.all == std::vector<std::int64_t>(logits.begin(), logits.end()));
  CHECK(std::set<std::int32_t>(logits.begin(), logits.end()).size() > 2);
  const auto ops = m.ops();
  return {ops.begin(), ops.end()};
}

/// With batch norms folded, and not. The operators of the first.
template <class N>
std::multiset<std::string> check_network(std::uint64_t seed) {
  auto folded = random_integers<N>(seed),
       unfolded = random_integers<N>(seed, {.fold_batch_norm = false});
  check_logits(unfolded, 2);
  return check_logits(folded, 2);
}

template <Precision P>
using few_bits = resnet<8, P, cpu, tiny_image>;
constexpr resnet_options projected{
    .image = {3, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false};
/// ResNet-50's layers, fewer and narrower.
using bottlenecks =
    network<sequential<convolution<8, 7, 2>, pooled_blocks::norm_relu, max_pool<3, 2>,
                       pooled_blocks::equal_stage<true, 8, 1, 2>,
                       pooled_blocks::equal_stage<true, 16, 2, 2>, global_average_pool, linear<5>>,
            int8, cpu, direct, extent{3, 33, 35}, 5>;

}  // namespace

TEST_CASE("onnx integers: option A, folded and not, in weights of 8, 4 and 2 bits") {
  check_network<random_resnet<tiny_image>>(1);
  check_network<few_bits<low_bit_weights<4>>>(2);
  check_network<few_bits<low_bit_weights<2>>>(3);
}

TEST_CASE("onnx integers: projections, max pool of 32 bits, bottlenecks") {
  auto two = random_integers<random_resnet<projected, 14>>(4);
  check_logits(two, 2);
  auto pool = random_integers<imagenet_form>(5);
  check_logits(pool, 1);
  const auto ops = check_network<bottlenecks>(6);
  CHECK(ops.count("ConvInteger") == 15);
  CHECK(ops.count("MaxPool") == 0);
  CHECK(ops.count("BitShift") > 0);
}

TEST_CASE("onnx integers: max pool of bytes, convolutions without batch norm") {
  using pools = network<
      sequential<convolution<5, 3>, relu, max_pool<3, 2, 1>, convolution<7, 3>, batch_norm<relu>,
                 max_pool<2, 2, 0>, convolution<6, 3>, global_average_pool, linear<4>>,
      int8, cpu, direct, extent{2, 12, 11}, 4>;
  auto net = random_integers<pools>(7);
  CHECK(check_logits(net, 3).count("MaxPool") == 2);
}

TEST_CASE("onnx integers: max pool of 32 bits below zero, whose padding is not the largest") {
  using negative =
      network<sequential<convolution<8, 3>, batch_norm<>, max_pool<3, 2>,
                         residual<convolution<8, 3>, batch_norm<>>, global_average_pool, linear<4>>,
              int8, cpu, direct, extent{1, 6, 7}, 4>;
  auto plane = random_plane<negative>(8);
  const segment& shift = segment_named<negative>("bn1.bias");
  for (std::size_t i = 0; i < shift.size; ++i) plane[shift.offset + i] -= 1;
  auto net = integer_network::from<negative>(plane, {{0.4F, 0, 0, 0}, {4, 1, 1, 1}});
  check_logits(net, 3);
}

TEST_CASE("onnx integers: weights are bytes around 128, and the zero points are the layers'") {
  auto net = random_integers<random_resnet<tiny_image>>(1);
  const onnx_reader::model m(file_of(net));
  std::size_t convolutions = 0;
  for (const auto& step : net.program().steps)
    if (const auto* c = std::get_if<detail::infer::integer_convolution>(&step.layer)) {
      const onnx_reader::node& n = m.at(step.name + ".sums");
      CHECK(n.op == "ConvInteger");
      const auto weights = onnx_reader::numbers<std::uint8_t>(m.constants.at(n.inputs[1]).raw);
      std::vector<std::int8_t> back;
      for (const std::uint8_t w : weights) back.push_back(static_cast<std::int8_t>(w - 128));
      CHECK(back == c->weights);
      CHECK(m.constants.at(n.inputs[2]).raw == std::string(1, static_cast<char>(c->zero_point)));
      CHECK(m.constants.at(n.inputs[3]).raw == "\x80");
      ++convolutions;
    }
  CHECK(convolutions == 7);
}

TEST_CASE("write_onnx of integers: the file has the graph's bytes, also of a loaded network") {
  const folder f;
  const auto net = random_integers<random_resnet<tiny_image>>(1);
  write_onnx(f.file("made/net.onnx"), net);
  const file_bytes bytes = f.get("made/net.onnx");
  CHECK(std::string(bytes.begin(), bytes.end()) == file_of(net));
  net.save(f.file("net"));
  CHECK(file_of(integer_network::load(f.file("net"))) == file_of(net));
}

TEST_CASE("write_onnx of integers: sums that 32 bits do not hold are refused by the layer's name") {
  auto program = program_of_cifar_form();
  classifier_of(program).bias[1] = std::int64_t{1} << 62;
  CHECK_THROWS_WITH_AS((void)detail::infer::onnx_bytes(program, 1),
                       doctest::Contains("layer \"fc\""), error);
}
