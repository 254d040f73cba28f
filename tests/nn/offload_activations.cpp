// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/offload_activations.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/testing/network_laws.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/counted_uploads.hpp"

using namespace cordee;
using namespace support;

namespace {

template <bool Offloaded, Layer L>
using block = detail::nn::activations_of<Offloaded, L>;
template <int Channels, int Stride, class Shortcut>
using body = residual<
    sequential<convolution<Channels, 3, Stride>, batch_norm<relu>, convolution<Channels, 3>>,
    batch_norm<>, Shortcut>;
/// A stem with a max pool and eight residual blocks. The memory of those that are copied is used by
/// later ones.
template <bool Offloaded, class D>
using net_of =
    network<sequential<block<Offloaded, sequential<convolution<8>, batch_norm<relu>, max_pool<>>>,
                       repeat<6, block<Offloaded, body<8, 1, identity>>>,
                       block<Offloaded, body<16, 2, projection<16>>>,
                       block<Offloaded, body<16, 1, identity>>, global_average_pool, linear<5>>,
            fp32, D, reference, extent{3, 16, 16}, 5>;
using plain = net_of<false, counted_uploads>;
using offloaded = net_of<true, counted_uploads>;

constexpr std::size_t samples = 3;
struct batch_on_device {
  buffer<std::uint8_t, counted_uploads> pixels;
  buffer<std::int32_t, counted_uploads> labels;

  batch_on_device(const counted_uploads& device, counted_uploads::stream s)
      : pixels(device, samples * plain::input.size()), labels(device, samples) {
    std::vector<std::uint8_t> image(pixels.size());
    for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i * 37);
    const std::vector<std::int32_t> classes{3, 1, 4};
    device.copy(pixels.span().data, image.data(), image.size(), s);
    device.copy(labels.span().data, classes.data(), 4 * samples, s);
  }
  [[nodiscard]] batch<counted_uploads> get(int count = samples) {
    batch<counted_uploads> b;
    b.pixels = pixels.span();
    b.labels = labels.span();
    b.global_samples = b.count = count;
    return b;
  }
};

/// Backward ends in the third residual block.
template <class Net>
void freeze(Net& net) {
  std::vector<std::uint8_t> frozen(net.tensors());
  std::fill_n(frozen.begin(), 16, std::uint8_t{1});
  net.freeze(frozen);
}

/// What same_passes says of both networks, of which the last may leave out waits.
std::string law(std::uint64_t seed, bool freezes = false,
                missing_wait missing = missing_wait::none) {
  const counted_uploads device(seed);
  const auto s = device.make_compute_stream();
  batch_on_device data(device, s);
  plain a{device};
  offloaded b{device};
  if (freezes) freeze(a), freeze(b);
  device.finish(s);
  device.counted().missing = missing;
  const std::string said = same_passes(a, b, data.get(), s);
  device.counted().missing = missing_wait::none;
  device.finish(s);
  return said;
}

/// The bytes that a training pass allocates of the device, and copies.
struct pass_bytes {
  std::size_t device, pinned, uploaded, downloaded, waits;
};
template <class Net>
pass_bytes bytes_of(Net& net, const counted_uploads& device, counted_uploads::stream s,
                    phase p = phase::train) {
  batch_on_device data(device, s);
  buffer<float, counted_uploads> plane(device, Net::plane_size()),
      gradients(device, Net::plane_size());
  net.initialize(plane.span(), 1);
  auto packed = net.make_packed_parameters();
  net.pack_parameters(plane.span(), packed, s);
  const auto before = device.counted();
  const std::size_t waits = device.waits();
  net.forward(packed, plane.span(), data.get(), p, s);
  if (p == phase::train)
    net.backward(
        packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
  const auto& after = device.counted();
  return {after.device - before.device, after.pinned - before.pinned,
          after.uploaded - before.uploaded, after.downloaded - before.downloaded,
          device.waits() - waits};
}

}  // namespace

TEST_CASE("offload_activations: the bits of the network without, in any order of the streams") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) CHECK(law(seed) == "");
  for (std::uint64_t seed = 0; seed < 2; ++seed) CHECK(law(seed, true) == "");
}

TEST_CASE("offload_activations: a wait that is left out changes the bits") {
  const auto seen = [](missing_wait missing) {
    for (std::uint64_t seed = 0; seed < 8; ++seed)
      if (!law(seed, false, missing).empty()) return true;
    return false;
  };
  CHECK(seen(missing_wait::of_compute));
  CHECK(seen(missing_wait::of_others));
}

TEST_CASE("offload_activations: memory and bytes over the host link are as stated") {
  const counted_uploads device;
  const auto s = device.make_compute_stream();
  plain resident{device};
  offloaded net{device};
  using detail::nn::block_memory;
  const auto& layout = net.pass_layout();
  const auto bytes = bytes_of(net, device, s);
  CHECK(bytes.device == net.memory_of_pass(samples).sum() - sizeof(detail::ops::metric_sums));
  CHECK(bytes.pinned == layout.copied_bytes(samples));
  CHECK(layout.of(samples, block_memory::resident).sum() ==
        resident.pass_layout().of(samples).sum());
  CHECK(layout.of(samples).sum() < resident.pass_layout().of(samples).sum());

  // All but the last three of nine blocks, once each way. The stem keeps two of 16x16 pixels and
  // one of 8x8 with a byte for each maximum, the blocks four of 8x8.
  constexpr std::size_t formula =
      samples * 8 * (2 * 256 * 4 + 64 * 5 + 5 * (4 * 64 * 4));  // channels, numbers, bytes
  CHECK(bytes.downloaded == bytes.uploaded);
  CHECK(static_cast<double>(bytes.uploaded) <= 1.02 * static_cast<double>(formula));
  CHECK(bytes.uploaded >= formula);
  CHECK(bytes.waits <= 1);  // where memory grows

  const auto evaluated = bytes_of(net, device, s, phase::evaluate);
  CHECK(evaluated.downloaded + evaluated.uploaded + evaluated.device == 0);
  CHECK(net.describe_activations().find("activations of 9 blocks") == 0);
  net.release_activations();
  CHECK(bytes_of(net, device, s).downloaded == bytes.downloaded);
}

TEST_CASE("offload_activations: copies are captured with the pass") {
  const counted_uploads device;
  const auto s = device.make_compute_stream();
  batch_on_device data(device, s);
  const auto gradients_of = [&](auto& net, bool captured) {
    buffer<float, counted_uploads> plane(device, net.plane_size()),
        gradients(device, net.plane_size());
    net.initialize(plane.span(), 1);
    auto packed = net.make_packed_parameters();
    net.pack_parameters(plane.span(), packed, s);
    const auto pass = [&] {
      net.forward(packed, plane.span(), data.get(), phase::train, s);
      net.backward(
          packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
    };
    pass();
    if (captured) {
      const auto graph = device.capture(s, pass);
      device.clear(gradients.span().data, gradients.size() * sizeof(float), s);
      device.replay(graph, s);
    }
    return copy_to_host<float, counted_uploads>(device, gradients.span(), s);
  };
  plain resident{device};
  offloaded net{device};
  CHECK(same_bits(gradients_of(net, true), gradients_of(resident, false)));
  // A copy that no block waits for: the pass joins the stream of the copies.
  freeze(resident);
  freeze(net);
  CHECK(same_bits(gradients_of(net, true), gradients_of(resident, false)));
}

TEST_CASE("offload_activations: on the CPU nothing is moved, with the same bits and names") {
  network_fixture<net_of<false, cpu>> a(3);
  network_fixture<net_of<true, cpu>> b(3);
  CHECK(same_passes(a.net, b.net, a.samples(0, 3, 3), a.s) == "");
  CHECK(b.net.describe_activations().find("nothing is moved on the CPU") != std::string::npos);
}

TEST_CASE("offload_activations: within another block, and a second backward pass, are refused") {
  using nested =
      network<sequential<offload_activations<sequential<recompute<convolution<4>>, relu>>,
                         global_average_pool, linear<3>>,
              fp32, counted_uploads, reference, extent{1, 4, 4}, 3>;
  CHECK_THROWS_AS(nested{}, usage_error);
  using within =
      network<sequential<recompute<sequential<offload_activations<convolution<4>>, relu>>,
                         global_average_pool, linear<3>>,
              fp32, counted_uploads, reference, extent{1, 4, 4}, 3>;
  CHECK_THROWS_AS(within{}, usage_error);

  const counted_uploads device;
  const auto s = device.make_compute_stream();
  batch_on_device data(device, s);
  offloaded net{device};
  buffer<float, counted_uploads> plane(device, net.plane_size());
  auto packed = net.make_packed_parameters();
  const auto backward = [&] {
    net.backward(
        packed, plane.span(), write_mode::overwrite, [](std::size_t) {}, s);
  };
  net.forward(packed, plane.span(), data.get(), phase::train, s);
  backward();
  CHECK_THROWS_AS(backward(), usage_error);
}

TEST_CASE("offload_activations: blocks of a residual network, by its options") {
  constexpr resnet_options by_block{.offload_activations = true};
  using imagenet = resnet<50, fp32, counted_uploads, by_block, reference>;
  using resident = resnet<50, fp32, counted_uploads, resnet_options{}, reference>;
  const imagenet net;
  const resident other;
  using detail::nn::block_memory;
  CHECK(net.describe_activations().find("activations of 17 blocks") == 0);
  CHECK(net.pass_layout().of(8).sum() == other.pass_layout().of(8, block_memory::offloaded).sum());
  CHECK(net.pass_layout().of(8, block_memory::resident).sum() == other.pass_layout().of(8).sum());
  // of 88.7 MB a sample
  CHECK(static_cast<double>(net.bytes_per_sample()) <
        0.6 * static_cast<double>(other.bytes_per_sample()));
}
