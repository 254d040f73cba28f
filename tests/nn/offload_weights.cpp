// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
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
#include <cordee/precision/fp16.hpp>
#include <cordee/testing/same_bits.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/counted_uploads.hpp"

using namespace cordee;
using namespace support;

namespace {

enum class weights { resident, by_block, by_block_recomputed };

template <weights W, Layer L>
using block = detail::nn::weights_of<W != weights::resident,
                                     detail::nn::block_of<W == weights::by_block_recomputed, L>>;
template <int Channels, int Stride, class Shortcut>
using body = residual<
    sequential<convolution<Channels, 3, Stride>, batch_norm<relu>, convolution<Channels, 3>>,
    batch_norm<>, Shortcut>;
template <weights W, class P, class D>
using net_of = network<sequential<block<W, sequential<convolution<8>, batch_norm<relu>>>,
                                  repeat<2, block<W, body<8, 1, identity>>>,
                                  block<W, body<16, 2, projection<16>>>, global_average_pool,
                                  block<W == weights::resident ? W : weights::by_block, linear<5>>>,
                       P, D, reference, extent{3, 8, 8}, 5>;
template <weights W>
using on_gpu = net_of<W, fp16, counted_uploads>;

struct outcome {
  std::vector<float> numbers;              // weights with statistics, gradients
  std::vector<double> losses;              // of training and evaluation
  std::size_t device = 0, pinned = 0;      // bytes held by the network and its weights
  std::size_t evaluated = 0, trained = 0;  // bytes uploaded by a pass of each
  std::string described;
};

/// Two updates of a third of the gradients and an evaluation behind each.
template <class Net>
outcome train(const counted_uploads& device, bool freezes = false,
              missing_wait missing = missing_wait::none) {
  constexpr std::size_t samples = 3;
  const auto s = device.make_compute_stream();
  buffer<float, counted_uploads> plane(device, Net::plane_size()),
      gradients(device, Net::plane_size());
  buffer<std::uint8_t, counted_uploads> pixels(device, samples * Net::input.size());
  buffer<std::int32_t, counted_uploads> labels(device, samples);
  std::vector<std::uint8_t> image(pixels.size());
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<std::int32_t> classes{3, 1, 4};
  device.copy(pixels.span().data, image.data(), image.size(), s);
  device.copy(labels.span().data, classes.data(), 4 * samples, s);
  const auto [before_device, before_pinned] =
      std::pair(device.counted().device, device.counted().pinned);
  Net net{device};
  net.initialize(plane.span(), 1);
  auto packed = net.make_packed_parameters();
  if (freezes) {
    std::vector<std::uint8_t> frozen(net.tensors());
    std::fill_n(frozen.begin(), 8, std::uint8_t{1});
    net.freeze(frozen);
  }
  batch<counted_uploads> b;
  b.pixels = pixels.span();
  b.labels = labels.span();
  b.global_samples = b.count = samples;
  outcome out;
  device.counted().missing = missing;
  const auto uploaded_by = [&](const auto& pass) {
    const std::size_t before = device.counted().uploaded;
    pass();
    return device.counted().uploaded - before;
  };
  for (int step = 0; step < 2; ++step) {
    net.pack_parameters(plane.span(), packed, s);
    out.trained = uploaded_by([&] {
      net.forward(packed, plane.span(), b, phase::train, s);
      net.backward(
          packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
    });
    out.losses.push_back(net.read_metrics(s).loss);
    s.submit([w = plane.span(), g = gradients.span()] {
      for (std::size_t i = 0; i < w.size; ++i) w.data[i] -= g.data[i] / 3;
    });
    net.pack_parameters(plane.span(), packed, s);
    out.evaluated = uploaded_by([&] { net.forward(packed, plane.span(), b, phase::evaluate, s); });
    out.losses.push_back(net.read_metrics(s).loss);
  }
  device.counted().missing = missing_wait::none;
  device.finish(s);
  out.device = device.counted().device - before_device;
  out.pinned = device.counted().pinned - before_pinned;
  for (auto* const one : {&plane, &gradients})
    out.numbers.insert(out.numbers.end(), one->span().data, one->span().data + one->size());
  if constexpr (requires { net.describe_offload(); }) out.described = net.describe_offload();
  return out;
}
bool same(const outcome& a, const outcome& b) {
  return same_bits(a.numbers, b.numbers) && same_bits(a.losses, b.losses);
}

}  // namespace

TEST_CASE("offload_weights: the bits of the resident network, in any order of the streams' work") {
  const outcome resident = train<on_gpu<weights::resident>>(counted_uploads(0));
  CHECK(
      std::any_of(resident.numbers.begin(), resident.numbers.end(), [](float x) { return x > 0; }));
  CHECK(resident.losses[0] != resident.losses[2]);
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    CHECK(same(train<on_gpu<weights::by_block>>(counted_uploads(seed)), resident));
  CHECK(same(train<on_gpu<weights::by_block_recomputed>>(counted_uploads(1)), resident));
  const outcome frozen = train<on_gpu<weights::resident>>(counted_uploads(0), true);
  CHECK(same(train<on_gpu<weights::by_block>>(counted_uploads(1), true), frozen));
}

TEST_CASE("offload_weights: a wait that is left out changes the bits") {
  const outcome resident = train<on_gpu<weights::resident>>(counted_uploads(0));
  const auto seen = [&](missing_wait missing) {
    for (std::uint64_t seed = 0; seed < 8; ++seed)
      if (!same(train<on_gpu<weights::by_block>>(counted_uploads(seed), false, missing), resident))
        return true;
    return false;
  };
  CHECK(seen(missing_wait::of_compute));
  CHECK(seen(missing_wait::of_others));
}

TEST_CASE("offload_weights: two slots of the largest block on the device, and bytes as stated") {
  const outcome resident = train<on_gpu<weights::resident>>(counted_uploads(0)),
                by_block = train<on_gpu<weights::by_block>>(counted_uploads(0));
  // Blocks: 8x3x3x3 (3 padded to 8 or not), twice 2x 8x8x3x3, 16x8x3x3 + 16x16x3x3 + 16x8, 16x5.
  const std::size_t packed = by_block.pinned;
  CHECK(resident.pinned == 0);
  const std::size_t slots = by_block.device + packed - resident.device;
  constexpr std::size_t largest = 2 * (16 * 8 * 9 + 16 * 16 * 9 + 16 * 8);  // in fp16
  CHECK(slots >= 2 * largest);
  CHECK(slots <= 2 * (largest + 6 * 2 * 64 * 4));  // batch norms: 3 x 2 of 64 floats with padding
  CHECK(by_block.evaluated == packed);
  CHECK(resident.evaluated == 0);
  CHECK(by_block.trained < 2 * packed - largest);  // of the last two blocks once
  CHECK(by_block.described.find(concat(detail::core::grouped(slots), " bytes of the device")) !=
        std::string::npos);
  CHECK(by_block.described.find(concat(detail::core::grouped(by_block.trained),
                                       " per micro-batch in training")) != std::string::npos);
}

TEST_CASE("offload_weights: on the CPU nothing is moved, with the same bits and names") {
  using resident = net_of<weights::resident, fp32, cpu>;
  using by_block = net_of<weights::by_block, fp32, cpu>;
  network_fixture<resident> a(3);
  network_fixture<by_block> b(3);
  CHECK(a.forward().loss == b.forward().loss);
  a.backward();
  b.backward();
  CHECK(same_bits(a.gradients(), b.gradients()));
  CHECK(a.packed.size() == b.packed.size());
  for (std::size_t k = 0; k < resident::segments().size(); ++k)
    CHECK(resident::segments()[k].name == by_block::segments()[k].name);
}

TEST_CASE("offload_weights: blocks of a residual network, by its options") {
  constexpr resnet_options by_block{.offload_weights = true};
  using cifar = resnet<20, fp32, counted_uploads, by_block, reference>;
  using imagenet = resnet<50, fp32, counted_uploads, by_block, reference>;
  CHECK(cifar{}.describe_offload().find(" 11 blocks ") != std::string::npos);
  const counted_uploads device;
  imagenet net{device};
  const auto packed = net.make_packed_parameters();
  // The largest block of ResNet-50: 1x1 1024 to 512, 3x3 512, 1x1 512 to 2048, 1x1 1024 to 2048.
  constexpr std::size_t largest = 4 * (1024 * 512 + 9 * 512 * 512 + 512 * 2048 + 1024 * 2048);
  CHECK(net.describe_offload().find(" 18 blocks ") != std::string::npos);
  CHECK(packed.size() >= 4 * 25'557'032);
  CHECK(device.counted().pinned == packed.size());
  CHECK(device.counted().device >= 2 * largest);
  CHECK(device.counted().device < 2.02 * largest);
  // What a plan states of the network, and of one that is resident.
  using resident = resnet<50, fp32, counted_uploads, resnet_options{}, reference>;
  CHECK(net.pass_layout().packed == packed.size());
  CHECK(net.pass_layout().packed_on_device == resident{}.pass_layout().weight_slots());
  CHECK(resident{}.pass_layout().packed_on_device == packed.size());
}

TEST_CASE("offload_weights: within recompute it is refused") {
  using nested = network<sequential<recompute<sequential<offload_weights<convolution<4>>, relu>>,
                                    global_average_pool, offload_weights<linear<3>>>,
                         fp64, cpu, reference, extent{1, 4, 4}, 3>;
  CHECK_THROWS_AS(nested{}, usage_error);
}
