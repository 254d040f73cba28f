// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/infer/file/program_file.hpp>
#include <cordee/io/tensor_file.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of every kind of layer, saved and loaded.
template <class N>
void check_logits(integer_network_options options = {}) {
  const folder f;
  auto net = random_integers<N>(1, options);
  net.save(f.file("net"));
  auto loaded = integer_network::load(f.file("net")),
       of_type = integer_network::load<N>(f.file("net"));
  const auto logits = logits_of(net);
  CHECK(logits_of(loaded) == logits);
  CHECK(logits_of(of_type) == logits);
  CHECK(loaded.image() == N::input);
  CHECK(loaded.classes() == net.classes());
  CHECK(loaded.logit_step() == net.logit_step());
  loaded.save(f.file("again"));
  CHECK(f.get("again") == f.get("net"));
  CHECK(f.files() == 2);
}

}  // namespace

TEST_CASE("program_file: a loaded network has the logits of the saved one, to the bit") {
  check_logits<random_resnet<tiny_image>>();
  check_logits<random_resnet<tiny_image>>({.fold_batch_norm = false});
  check_logits<random_resnet<resnet_options{
      .image = {3, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false}>>();
  check_logits<
      random_resnet<resnet_options{.image = {3, 64, 64}, .classes = 3, .zero_gamma = false}, 18>>();
}

TEST_CASE("program_file: the tensors and metadata are those that the header documents") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(2).save(f.file("net"));
  const auto file = detail::io::tensor_file::open(f.file("net"));
  CHECK(file.at("conv1.weight").shape == std::vector<std::size_t>{16, 1, 3, 3});
  CHECK(file.at("conv1.weight").dtype == "I8");
  CHECK(file.at("layer3.0.conv2.bias").dtype == "I32");
  CHECK(file.at("layer3.0.conv2.multiplier").dtype == "I32");
  CHECK(file.at("layer3.0.conv2.shift").dtype == "I8");
  CHECK(file.at("fc.weight").shape == std::vector<std::size_t>{3, 64});
  CHECK(file.at("fc.weight").dtype == "I16");
  CHECK(file.at("fc.bias").dtype == "I64");
  CHECK(file.at("pixel_table").shape == std::vector<std::size_t>{1, 256});
  CHECK(file.metadata()[0] ==
        std::pair<std::string, std::string>{"format", "cordee.integer_network"});
  CHECK(file.metadata()[1] == std::pair<std::string, std::string>{"version", "2"});
  CHECK(file.metadata()[2] == std::pair<std::string, std::string>{"rounding", "single"});
}

TEST_CASE("program_file: a file that cannot be written leaves the old one") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(3).save(f.file("net"));
  const auto before = f.get("net");
  const auto message = message_of<error>(
      [&] { random_integers<random_resnet<tiny_image>>(4).save(f.file("none/net")); });
  CHECK(contains_all(message, {f.file("none/net")}));
  CHECK(f.get("net") == before);
}
