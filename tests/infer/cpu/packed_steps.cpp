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

TEST_CASE("packed_steps: convolutions over as many pixels are a chain, with copies") {
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
  const auto step = [&](std::string_view name) {
    for (std::size_t k = 0; k < program.steps.size(); ++k)
      if (program.steps[k].name == name) return static_cast<int>(k);
    return -1;
  };
  const auto rows = [&](std::string_view name) { return packed[step(name)].rows(); };
  const auto ahead = [&](std::string_view name) { return packed.rows_ahead(step(name)); };
  // Engine `direct` counts other rows where a window is one pixel.
  const bool windows = chains && rows("layer1.0.conv1") == rows("layer1.0.conv2");
  CHECK((windows || detail::ops::lanes<float> < 16 || CORDEE_ABI_AMX == 0));
  CHECK(chained("layer1.0.conv2") == (windows ? "layer2.0.conv1" : "layer1.0.conv2"));
  CHECK(chained("layer1.1.conv3") == (windows  ? "layer2.0.conv1"
                                      : chains ? "layer1.2.conv1"
                                               : "layer1.1.conv3"));
  CHECK(chained("layer1.2.conv3") == (chains ? "layer2.0.conv1" : "layer1.2.conv3"));
  CHECK(chained("layer2.0.conv2") != "layer2.0.conv1");  // of a quarter of the pixels
  CHECK(ahead("layer2.0.conv1") == 0);
  CHECK(ahead("layer1.2.conv2") == 0);
  CHECK(ahead("layer1.2.conv1") == (windows ? 1 : 0));  // a window reads a row more
  CHECK(ahead("layer1.0.conv2") == (windows ? 2 : 0));
  CHECK(last[0] == (chains ? 1 : 0));  // with its max pool
  for (std::size_t k = 0; k < last.size(); ++k)
    if (program.steps[k].name == "layer1.0.conv3")
      CHECK(packed.copy_of(static_cast<int>(k)) != nullptr);
}
