// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/infer/gpu/program.hpp>

#include "tests/infer/integer_network_on.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee::detail::infer;
using namespace support;

TEST_CASE("gpu_program: a call is a launch a step, one for the images, and no wait") {
  const device_fixture at{deferred{}};
  const integer_network net = random_integers<random_resnet<tiny_image>>(1);
  const auto images = at.put(random_bytes(net, 2));
  auto logits = at.put(std::vector<std::int32_t>(2 * net.classes()));
  const gpu_program<deferred> program(net.program(), at.device, at.s);
  const std::size_t before = at.device.launches(), waits = at.device.waits();
  program.run(2, images.span().data, logits.span().data, at.s);
  std::size_t of_32_bits = 0;  // inputs of convolutions
  const auto& steps = net.program().steps;
  for (const integer_step& s : steps)
    if (std::holds_alternative<integer_convolution>(s.layer) && s.input >= 0 &&
        steps[static_cast<std::size_t>(s.input)].bytes == 4)
      ++of_32_bits;
  CHECK(of_32_bits == 3);  // where a residual block begins
  CHECK(at.device.launches() - before == 1 + steps.size() + of_32_bits);
  CHECK(at.device.waits() == waits);
}

TEST_CASE("gpu_program: a window that tensor cores do not have is refused by the layer's name") {
  const device_fixture at{emulated{}};
  using wide = network<sequential<convolution<2, 17>, global_average_pool, linear<2>>, int8, cpu,
                       direct, extent{1, 8, 8}, 2>;
  const integer_network net = random_integers<wide>(1);
  const std::string message = message_of<error>(
      [&] { static_cast<void>(gpu_program<emulated>(net.program(), at.device, at.s)); });
  CHECK(message.find("has no form on a GPU: its window of 17 is larger than 15") !=
        std::string::npos);
}
