// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The largest batch whose training pass runs in the memory of a GPU, emulated, with and without
// recompute: of ResNet-50 in fp16 at 224 pixels, where kernels do not run, and of a small network,
// where they do.
#include <concepts>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>

#include "tests/support/idle_device.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A GPU of so much memory that runs its kernels.
struct limited_device : idle_device {
  using stream = linked_device::stream;
  using idle_device::idle_device;
  [[nodiscard]] stream make_stream() const { return linked_device::make_stream(); }
  [[nodiscard]] std::optional<std::size_t> available(stream) const {
    return memory - count().device_bytes;
  }
};

/// A network and what a trainer with momentum holds beside it.
template <class Net>
class training {
  using D = typename Net::device;

 public:
  explicit training(std::size_t bytes)
      : device_(bytes),
        net_(device_),
        packed_(net_.make_packed_parameters()),
        weights_(device_, Net::plane_size()),
        gradients_(device_, Net::plane_size()),
        momenta_(device_, Net::plane_size()) {}

  /// Whether a training pass of so many images runs in the memory.
  bool runs(int samples) {
    net_.release_activations();
    const auto n = static_cast<std::size_t>(samples);
    const auto s = device_.make_stream();
    try {
      const buffer<std::uint8_t, D> pixels(device_, n * Net::input.size());
      const buffer<std::int32_t, D> labels(device_, n);
      batch<D> one;
      one.pixels = pixels.span();
      one.labels = labels.span();
      one.count = samples;
      one.global_samples = samples;
      net_.forward(packed_, weights_.span(), one, phase::train, s);
      net_.backward(
          packed_, gradients_.span(), write_mode::overwrite, [](std::size_t) {}, s);
      CHECK(device_.count().device_bytes <= device_.memory);
      if constexpr (std::same_as<D, limited_device>) CHECK(net_.read_metrics(s).count == samples);
      return true;
    } catch (const error& refused) {
      CHECK(std::string(refused.what()).find("no room for ") != std::string::npos);
      return false;
    }
  }
  int largest_batch(int at_least, int too_many) {
    int most = at_least;
    REQUIRE(runs(most));
    REQUIRE(!runs(too_many));
    while (too_many - most > 1) {
      const int middle = (most + too_many) / 2;
      (runs(middle) ? most : too_many) = middle;
    }
    return most;
  }

 private:
  D device_;
  Net net_;
  typename Net::packed_parameters packed_;
  buffer<float, D> weights_, gradients_, momenta_;
};

template <bool Recompute>
using resnet50_in_fp16 =
    resnet<50, fp16, idle_device, resnet_options{.recompute = Recompute}, tensor_core>;
template <bool Recompute, class D>
using small_network =
    resnet<8, fp32, D,
           resnet_options{.image = {1, 4, 4}, .zero_gamma = false, .recompute = Recompute},
           reference>;

}  // namespace

TEST_CASE("largest batch: in the same memory 2.2 times as many images run by recompute") {
  constexpr std::size_t bytes = 1'500'000'000;
  const int plain = training<resnet50_in_fp16<false>>(bytes).largest_batch(8, 64),
            recomputed = training<resnet50_in_fp16<true>>(bytes).largest_batch(32, 128);
  MESSAGE("ResNet-50 in 1.5 GB: " << plain << " images, " << recomputed << " with recompute: "
                                  << static_cast<double>(recomputed) / plain << " times");
  CHECK(recomputed >= 2.2 * plain);
}

TEST_CASE("largest batch: kernels of a batch that fits by recompute alone run in the memory") {
  constexpr std::size_t bytes = 1'600'000;
  const int plain = training<small_network<false, idle_device>>(bytes).largest_batch(2, 256);
  MESSAGE("ResNet-8 of 4x4 images: " << plain);
  CHECK(training<small_network<true, limited_device>>(bytes).runs(plain + 1));
}
