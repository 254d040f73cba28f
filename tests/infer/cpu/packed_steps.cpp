// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <doctest/doctest.h>

#include <cordee/infer/cpu/packed_steps.hpp>
#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;

namespace {
using net = resnet<50, int8, cpu, resnet_options{.image = {3, 64, 64}, .classes = 4}>;
}  // namespace

TEST_CASE("packed_steps: windows of one pixel over the same pixels are a chain, with copies") {
  constexpr int V = detail::ops::lanes<float>;
  const auto program =
      program_builder(list_layers(static_cast<const net*>(nullptr)), support::random_plane<net>(1))
          .build(net::input, {});
  const packed_steps<V> packed(program);
  const auto last = packed.last_of_chain();
  const auto chained = [&](std::string_view name) -> std::string_view {  // the last one's name
    for (std::size_t k = 0; k < program.steps.size(); ++k)
      if (program.steps[k].name == name)
        return program.steps[static_cast<std::size_t>(last[k])].name;
    return "none";
  };
  constexpr bool chains = []<class C>(C*) {
    return requires { requires C::fuses; };
  }(static_cast<detail::ops::default_byte_correlation<V>*>(nullptr));
  CHECK(chained("layer1.0.conv2") == "layer1.0.conv2");
  CHECK(chained("layer1.1.conv3") == (chains ? "layer1.2.conv1" : "layer1.1.conv3"));
  CHECK(chained("layer1.2.conv3") == (chains ? "layer2.0.conv1" : "layer1.2.conv3"));
  CHECK(last[0] == (chains ? 1 : 0));  // with its max pool
  for (std::size_t k = 0; k < last.size(); ++k)
    if (program.steps[k].name == "layer1.0.conv3")
      CHECK(packed.copy_of(static_cast<int>(k)) != nullptr);
}
