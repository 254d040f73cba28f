// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer networks with weights of 4 and 2 bits, and their files.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network.hpp>
#include <cordee/io/tensor_file.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

namespace {

template <int Bits, resnet_options Options = tiny_image, int Depth = 8>
using low_bit_resnet = resnet<Depth, low_bit_weights<Bits>, cpu, Options>;

/// Saved and loaded; returns the bytes of all tensors in the file.
template <class N>
double saved_bytes() {
  const folder f;
  integer_network net = random_integers<N>(1);
  net.save(f.file("net"));
  auto any = integer_network::load(f.file("net")), same = integer_network::load<N>(f.file("net"));
  const auto logits = logits_of(net);
  CHECK(logits_of(any) == logits);
  CHECK(logits_of(same) == logits);
  any.save(f.file("again"));
  CHECK(f.get("again") == f.get("net"));
  double bytes = 0;
  const auto file = detail::io::tensor_file::open(f.file("net"));
  for (const auto& entry : file.entries()) bytes += static_cast<double>(entry.size);
  return bytes;
}
template <class N>
double parameter_bytes() {
  double bytes = 0;
  for (const segment& s : N::segments())
    if (s.kind != kind::statistic) bytes += 4 * static_cast<double>(s.size);
  return bytes;
}

}  // namespace

TEST_CASE("low-bit networks: the weights of training's simulation, and logits through a file") {
  using four = low_bit_resnet<4>;
  using two = low_bit_resnet<2>;
  for (const int bits : {4, 2}) {
    const auto plane = random_plane<four>(1);
    const integer_network net =
        bits == 4 ? integer_network::from<four>(plane, {}) : integer_network::from<two>(plane, {});
    const auto& c = std::get<integer_convolution>(net.program().steps[1].layer);
    const segment& s = segment_named<four>("layer1.0.conv1.weight");
    const segment& gamma = segment_named<four>("layer1.0.bn1.weight");
    const std::size_t each = s.size / 16;
    for (std::size_t k = 0; k < 16; ++k) {
      std::vector<std::int8_t> q(each);
      detail::ops::quantize_channel(each, plane.data() + s.offset + k * each, q.data(), bits);
      if (plane[gamma.offset + k] < 0)
        for (auto& w : q) w = static_cast<std::int8_t>(-w);
      CHECK(std::equal(q.begin(), q.end(),
                       c.weights.begin() + static_cast<std::ptrdiff_t>(k * each)));
    }
  }
}

TEST_CASE("low-bit networks: a ResNet-20's tensors are 3.9, 7.5, 14 times smaller than floats") {
  constexpr resnet_options cifar{.image = {3, 32, 32}, .classes = 10, .zero_gamma = false};
  const double floats = parameter_bytes<random_resnet<cifar, 20>>();
  CHECK(floats / saved_bytes<random_resnet<cifar, 20>>() > 3.9);
  CHECK(floats / saved_bytes<low_bit_resnet<4, cifar, 20>>() > 7.5);
  CHECK(floats / saved_bytes<low_bit_resnet<2, cifar, 20>>() > 14);
}

TEST_CASE("low-bit networks: files whose weights do not have their bits are refused") {
  const integer_program four = random_integers<low_bit_resnet<4>>(1).program(),
                        two = random_integers<low_bit_resnet<2>>(1).program();
  const std::string at = "step 0, convolution \"conv1\": ";
  const auto set = [](int weight) {
    return [=](integer_program& p) {
      convolution_at(p, 0).weights[7] = static_cast<std::int8_t>(weight);
    };
  };
  CHECK_REFUSED(at + "a weight is -8, not within -7 .. 7", refusal(four, set(-8)));
  CHECK_REFUSED(at + "a weight is -2, not within -1 .. 1", refusal(two, set(-2)));
  CHECK(refusal(four, set(-7)) == "");
  CHECK(refusal(two, set(1)) == "");
  const auto bits = [](int b) {
    return [=](integer_program& p) { convolution_at(p, 0).weight_bits = b; };
  };
  CHECK(refusal(four, bits(8)) == "");
  CHECK_REFUSED(at + "a weight is ", refusal(four, bits(2)));
  const std::string member = "\\\"weight_bits\\\":";
  CHECK_REFUSED("the shape of tensor \"conv1.weight\" is not [36]",
                refusal_of_bytes(four, replaced(member + "4", member + "2")));
  CHECK_REFUSED("the shape of tensor \"conv1.weight\" is not [16, 1, 3, 3]",
                refusal_of_bytes(four, replaced(member + "4", member + "8")));
}

TEST_CASE("low-bit networks: bits behind the last weight of a file are refused") {
  using odd =
      network<sequential<convolution<3, 1>, batch_norm<relu>, global_average_pool, linear<2>>,
              low_bit_weights<4>, cpu, direct, extent{1, 4, 4}, 2>;
  const folder f;
  random_integers<odd>(1).save(f.file("net"));
  auto bytes = f.get("net");
  std::size_t found = 0;
  const auto file = detail::io::tensor_file::open(f.file("net"));
  for (const auto& e : file.entries())
    if (e.name.ends_with(".weight") && e.dtype == "U8") {  // of three weights
      REQUIRE(e.size == 2);
      bytes[e.offset + 1] |= 0x10;
      ++found;
    }
  CHECK(found == 1);
  f.put("net", bytes);
  const auto message = message_of<error>(
      [&] { static_cast<void>(program_reader(f.file("net"), checksums::ignored).read()); });
  CHECK(message.find("bits behind its last weight are set") != std::string::npos);
}
