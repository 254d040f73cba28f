// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/file/stored_parameters.hpp>
#include <cordee/io/tensor_file.hpp>

#include "tests/infer/refused_program.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Bytes of a network's weights, biases and batch norms in floats.
template <class N>
double bytes_of_floats() {
  double bytes = 0;
  for (const segment& s : N::segments())
    if (s.kind != kind::statistic) bytes += 4 * static_cast<double>(s.size);
  return bytes;
}

}  // namespace

TEST_CASE("stored_parameters: their bytes are those of a file without pixel table and logit step") {
  for (const bool fold : {true, false}) {
    const folder f;
    const integer_network net = random_integers<imagenet_form>(2, {.fold_batch_norm = fold});
    net.save(f.file("net"));
    std::size_t bytes = 0;
    const auto file = detail::io::tensor_file::open(f.file("net"));
    for (const auto& entry : file.entries()) bytes += entry.size;
    CHECK(net.parameter_bytes() == bytes - 3 * 256 - 8);
  }
}

TEST_CASE(
    "stored_parameters: of own norms K, B and B's zeros, of convolutions before them shifts") {
  const integer_program& program = program_of_unfolded_form();
  const stored_parameters stored(program);
  const auto size_of = [&](const std::string& name) -> std::size_t {
    for (const auto& t : stored.tensors())
      if (t.name == name) return t.dtype == "U8" ? t.bytes.size() : 0;
    return 0;
  };
  for (const auto& t : stored.tensors())
    CHECK((t.name.ends_with(".weight") || t.name.starts_with("fc.") || t.dtype == "U8"));
  const auto& n = std::get<integer_batch_norm>(program.steps[1].layer);
  const norm_widths bits(n);
  CHECK(size_of("bn1.multiplier") == 2 * static_cast<std::size_t>(bits.multiplier));  // 16 channels
  CHECK(size_of("bn1.addend") == 2 * static_cast<std::size_t>(bits.addend));
  CHECK(size_of("bn1.addend_zeros") == 2 * static_cast<std::size_t>(bits.zeros));
  CHECK(size_of("conv1.shift") == 2 * static_cast<std::size_t>(shift_width(
                                          std::get<integer_convolution>(program.steps[0].layer))));
  CHECK(size_of("conv1.shift") > 0);
}

TEST_CASE("stored_parameters: a ResNet-20 with batch norms of its own is 3.9 times smaller") {
  constexpr resnet_options images{.image = {1, 28, 28}, .zero_gamma = false};
  using net = random_resnet<images, 20>;
  const auto fewer = [](bool fold) {
    return bytes_of_floats<net>() /
           static_cast<double>(
               random_integers<net>(1, {.fold_batch_norm = fold}).parameter_bytes());
  };
  const double folded = fewer(true), own = fewer(false);
  MESSAGE(folded, " times smaller, with batch norms of their own ", own);
  CHECK(folded > 3.9);
  CHECK(own > 3.9);
}
