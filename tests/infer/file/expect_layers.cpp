// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/infer/file/expect_layers.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("expect_layers: the file of another network is an error that names what differs") {
  const folder f;
  const std::string path = f.file("net");
  random_integers<random_resnet<tiny_image>>(1).save(path);
  const auto refusal_of = [&]<class N>(N*) {
    return message_of<error>([&] { static_cast<void>(integer_network::load<N>(path)); });
  };
  CHECK(refusal_of(static_cast<random_resnet<tiny_image>*>(nullptr)).empty());
  const auto begins = [&](const std::string& message, const std::string& reason) {
    return message.starts_with(path + ": a file of another network: " + reason);
  };
  constexpr resnet_options larger{.image = {1, 10, 8}, .classes = 3, .zero_gamma = false},
      two_classes{.image = {1, 9, 8}, .classes = 2, .zero_gamma = false},
      with_b{.image = {1, 9, 8}, .classes = 3, .shortcut = shortcut::b, .zero_gamma = false};
  CHECK(begins(refusal_of(static_cast<random_resnet<larger>*>(nullptr)),
               "its images are 1x9x8, not 1x10x8"));
  CHECK(
      begins(refusal_of(static_cast<random_resnet<two_classes>*>(nullptr)),
             "step 10 is classifier \"fc\" with output 3x1x1, the network has classifier \"fc\""));
  CHECK(begins(refusal_of(static_cast<random_resnet<with_b>*>(nullptr)),
               "step 4 is subsample \"\" with output 32x5x4, the network has convolution "
               "\"layer2.0.downsample.0\""));
  CHECK(begins(refusal_of(static_cast<random_resnet<tiny_image, 14>*>(nullptr)),
               "step 3 is convolution \"layer2.0.conv1\""));
  CHECK(begins(refusal_of(static_cast<resnet<8, low_bit_weights<4>, cpu, tiny_image>*>(nullptr)),
               "step 0, convolution \"conv1\", has weights of 8 bits, the network of 4"));
}
