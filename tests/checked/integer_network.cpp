// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory traffic of integer networks' kernels, as memory_access.cpp has that of the others:
// rows of integer_network.tsv. Images are whole sectors, and so small that a fifth of a kernel's
// bytes are the constants of its filters, which are read by accesses 16 bytes wide and 32 or 64
// apart. The taps of a first convolution begin within sectors: a pixel has 16 bytes.
#include <limits>

#include "tests/checked/measure.hpp"
#include "tests/infer/integer_network_on.hpp"
#include "tests/support/emulated.hpp"

using namespace support;

namespace {

constexpr resnet_options with_a{.image = {3, 16, 16}, .classes = 32, .zero_gamma = false};
constexpr extent stem_image{3, 32, 32};
/// Max pools of 32 bits and of bytes, 1x1 filters, a batch norm to bytes.
using small_stem = network<
    sequential<convolution<32, 3>, batch_norm<relu>, max_pool<2, 2, 0>,
               residual<sequential<convolution<32, 1>, batch_norm<relu>, convolution<64, 1>>,
                        batch_norm<identity>, projection<64, 1>>,
               convolution<32, 1>, relu, max_pool<3, 2, 1>, convolution<32, 3, 2>,
               global_average_pool, linear<32>>,
    int8, cpu, direct, stem_image, 32>;

void measure(checked::table& rows, const std::string& name, integer_network net) {
  constexpr std::size_t samples = 2;
  const device_fixture at{emulated{1}};
  const integer_network_on on_gpu(net, at.device, at.s);
  const auto images = at.put(random_bytes(net, samples));
  auto logits = at.put(std::vector<std::int32_t>(samples * net.classes()));
  constexpr double of_all_layers = std::numeric_limits<double>::infinity();
  checked::measure(rows, name, {images.size(), 4 * logits.size(), of_all_layers, of_all_layers},
                   [&] { on_gpu.run(images.span(), logits.span(), at.s); },
                   {.ratio = 1.13, .share = 5});
  CHECK(at.get(logits) == logits_of(net, samples));
}

}  // namespace

TEST_CASE("memory access of integer networks: near to ideal, and no more than recorded") {
  checked::table rows;
  measure(rows, "ResNet-8", random_integers<random_resnet<with_a>>(1));
  measure(rows, "ResNet-8, own batch norms", unfolded_integers<random_resnet<with_a>>(2));
  measure(rows, "stem", random_integers<small_stem>(3));
  measure(rows, "stem, own batch norms", unfolded_integers<small_stem>(4));
  checked::compare_with_table(rows, CORDEE_SOURCE_DIR "/tests/checked/integer_network.tsv");
}
