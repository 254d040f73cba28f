// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer networks on a GPU beside the CPU's: folded and unfolded batch norms, both shortcuts, both
// stems, weights of 8, 4 and 2 bits, products that do not fit 32 bits.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network_on.hpp>
#include <cordee/nn/resnet.hpp>

#include "tests/infer/imagenets_form.hpp"
#include "tests/infer/saved_network.hpp"
#include "tests/support/device_fixture.hpp"

namespace support {

/// The images of logits_of.
inline std::vector<std::uint8_t> random_bytes(const integer_network& net, std::size_t samples) {
  std::vector<std::uint8_t> images(samples * net.image().size());
  random_sequence draw(9, purpose::test, 0, 0);
  for (auto& pixel : images) pixel = static_cast<std::uint8_t>(draw.below(256));
  return images;
}
template <class D>
std::vector<std::int32_t> logits_on(const device_fixture<D>& at, const integer_network& net,
                                    std::size_t samples, bool offloads = false) {
  const integer_network_on on_gpu(net, at.device, at.s, {.offload_weights = offloads});
  CHECK(on_gpu.image() == net.image());
  CHECK(on_gpu.logit_step() == net.logit_step());
  const auto images = at.put(random_bytes(net, samples));
  auto logits = at.put(std::vector<std::int32_t>(samples * on_gpu.classes(), 99));
  on_gpu.run(images.span(), logits.span(), at.s);
  return at.get(logits);
}
template <class N>
integer_network unfolded_integers(std::uint64_t seed) {
  return integer_network::from<N>(random_plane<N>(seed), {}, cpu(), {.fold_batch_norm = false});
}

constexpr resnet_options gpu_with_a{.image = {3, 10, 9}, .classes = 4, .zero_gamma = false},
    gpu_with_b{.image = {1, 10, 9}, .classes = 35, .shortcut = shortcut::b, .zero_gamma = false},
    gpu_large{.image = {3, 32, 32}, .classes = 3, .zero_gamma = false, .stem = stem::large},
    gpu_bottlenecks{.image = {1, 16, 16}, .classes = 3, .zero_gamma = false, .stem = stem::small};
constexpr extent gpu_odd_image{2, 11, 13};
/// Few filters, and filters that do not fill a group; a max pool of bytes; a classifier of 64
/// features.
using gpu_odd =
    network<sequential<convolution<3, 5>, relu, max_pool<2, 2, 0>, convolution<21, 3, 2>,
                       batch_norm<relu>, convolution<64, 1>, global_average_pool, linear<2>>,
            int8, cpu, direct, gpu_odd_image, 2>;

/// 3x3 filters in tiles of 128, 1x1 filters in tiles of 64.
constexpr extent gpu_tiles_image{2, 5, 6};
using gpu_tiles = network<sequential<convolution<72, 3>, relu, convolution<40, 1>, relu,
                                     convolution<72, 3>, global_average_pool, linear<2>>,
                          int8, cpu, direct, gpu_tiles_image, 2>;

/// CIFAR's form. (In a loop's body nvcc 13.0 does not find a network's options.)
template <class D>
void small_networks_have_the_cpus_logits(const device_fixture<D>& at) {
  const auto check = [&](integer_network net, std::size_t samples) {
    CHECK(logits_on(at, net, samples) == logits_of(net, samples));
  };
  check(random_integers<random_resnet<gpu_with_a>>(1), 0);
  check(random_integers<random_resnet<gpu_with_a>>(1), 1);
  check(random_integers<random_resnet<gpu_with_a>>(1), 5);
  check(random_integers<random_resnet<gpu_with_b, 14>>(2), 3);
  check(random_integers<resnet<8, low_bit_weights<4>, cpu, gpu_with_b>>(3), 2);
  check(random_integers<resnet<8, low_bit_weights<2>, cpu, gpu_with_a>>(4), 2);
  check(random_integers<gpu_odd>(5), 5);
  check(unfolded_integers<random_resnet<gpu_with_b>>(6), 2);
  check(unfolded_integers<gpu_odd>(7), 2);
  check(random_integers<gpu_tiles>(11), 2);
  check(random_integers<random_resnet<gpu_with_a, 20>>(8), 2);
  check(random_integers<imagenets_form>(9), 2);
  check(unfolded_integers<imagenets_form>(9), 1);
  using a = random_resnet<gpu_with_a>;
  auto plane = random_plane<a>(10);
  plane[segment_named<a>("layer1.0.conv2.input_max").offset] = 1e-3F;
  plane[segment_named<a>("layer2.0.conv1.input_max").offset] = 1e-3F;
  plane[segment_named<a>("layer3.0.conv1.input_min").offset] = -0.5F;  // zero points
  plane[segment_named<a>("layer3.0.conv2.input_min").offset] = -0.5F;
  check(integer_network::from<a>(plane, {}), 2);
}
/// Minutes in the emulator.
template <class D>
void large_networks_have_the_cpus_logits(const device_fixture<D>& at) {
  const auto check = [&](integer_network net, std::size_t samples) {
    CHECK(logits_on(at, net, samples) == logits_of(net, samples));
  };
  check(random_integers<random_resnet<gpu_large, 18>>(2), 1);
  check(random_integers<random_resnet<gpu_bottlenecks, 50>>(3), 1);
}
/// On a device with graphs: what one replay computes of other images.
template <class D>
void a_captured_call_has_the_cpus_logits(const device_fixture<D>& at, bool offloads = false) {
  integer_network net = random_integers<random_resnet<gpu_with_b>>(9);
  constexpr std::size_t samples = 3;
  const integer_network_on on_gpu(net, at.device, at.s, {.offload_weights = offloads});
  auto images = at.put(std::vector<std::uint8_t>(samples * net.image().size()));
  auto logits = at.put(std::vector<std::int32_t>(samples * net.classes()));
  on_gpu.run(images.span(), logits.span(), at.s);  // sizes the stream's memory
  at.device.finish(at.s);
  const auto graph =
      at.device.capture(at.s, [&] { on_gpu.run(images.span(), logits.span(), at.s); });
  const std::vector<std::uint8_t> bytes = random_bytes(net, samples);
  at.device.copy(images.span().data, bytes.data(), bytes.size(), at.s);
  at.device.replay(graph, at.s);
  CHECK(at.get(logits) == logits_of(net, samples));
}

}  // namespace support
