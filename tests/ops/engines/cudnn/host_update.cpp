// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates by the host of networks by cuDNN, whose large gradients are unpacked in slices: their
// bits beside the GPU's own update, and ResNet-50's bytes, by a double of cuDNN.
#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/cudnn/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/linked_device.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options small{.image = {1, 8, 8}, .zero_gamma = false};
const synthetic small_images{.extent = small.image, .classes = 10, .samples = 64, .seed = 3};

/// Weights and packed parameters after three steps; `buckets` are of how many numbers.
template <class P, class Engine = cudnn, class O>
auto train(const O& optimizer, int accumulate, std::size_t numbers) {
  const host_cuda device;
  resnet<8, P, host_cuda, small, Engine> net{device};
  loader feed{
      small_images, self_comm{}, {.global_batch = 4 * accumulate, .accumulate = accumulate}};
  trainer run{net,
              optimizer,
              constant{.learning_rate = 0.2},
              solo{},
              {.bucket_bytes = numbers * sizeof(float), .loss_scaling = {.initial = 1024}}};
  if constexpr (requires { run.host(); }) {
    std::size_t most = 0, slices = 0;
    for (const bucket& b : run.buckets()) {
      most = std::max(most, b.size);
      slices += b.size < b.segments.back().end() - b.segments.front().offset ? 1 : 0;
    }
    CHECK(most < 10'000);  // of 36,864 of the largest tensor
    CHECK(slices > 10);
  }
  upload<host_cuda> uploaded(device);
  for (int k = 0; k < 3; ++k)
    CHECK(run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k)).applied);
  return std::pair(
      copy_to_host<float, host_cuda>(device, run.weights(), run.compute()),
      copy_to_host<std::byte, host_cuda>(device, run.packed_parameters().span(), run.compute()));
}

/// Counts memory; its kernels do not run.
struct idle_cuda : linked_device {
  struct stream : linked_device::stream {
    stream() = default;
    stream(const linked_device::stream& s, cudaStream_t h) : linked_device::stream(s), handle(h) {}
    cudaStream_t handle = nullptr;
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel&) const {}
  };
  [[nodiscard]] stream make_stream() const {
    static int unit = 0;
    return {linked_device::make_stream(), reinterpret_cast<cudaStream_t>(&unit)};
  }
};

constexpr resnet_options large{.image = {3, 64, 64}, .classes = 1000};

}  // namespace

TEST_CASE("cudnn: gradients in slices of filters have the bits of the GPU's own update") {
  host_cudnn fresh;
  host_state() = fresh;
  const weight_average optimizer{sgd{.momentum = 0.9, .weight_decay = 1e-3},
                                 exponential_average{.decay = 0.5}};
  for (const int accumulate : {1, 3}) {
    CAPTURE(accumulate);
    CHECK(train<fp16>(on_host{optimizer}, accumulate, 5000) ==
          train<fp16>(optimizer, accumulate, 5000));
    CHECK(train<fp32>(on_host{optimizer}, accumulate, 2000) ==
          train<fp32>(optimizer, accumulate, 2000));
    using fusing = cudnn_with<cudnn_settings{.fuse_batch_norm = true}>;
    CHECK(train<fp16, fusing>(on_host{optimizer}, accumulate, 5000) ==
          train<fp16, fusing>(optimizer, accumulate, 5000));
  }
}

TEST_CASE("cudnn: bytes for each of ResNet-50's parameters, and the plan's") {
  host_cudnn fresh;
  fresh.computes = false;
  host_state() = fresh;
  const idle_cuda device;
  auto& count = device.count();
  resnet<50, fp16, idle_cuda, large, cudnn> net{device};
  const synthetic images{.extent = large.image, .classes = 1000, .samples = 8};
  loader feed{images, self_comm{}, {.global_batch = 2}};
  trainer run{net, on_host{sgd{}}, constant{.learning_rate = 0.1}, solo{}};
  double parameters = 0;
  for (const segment& s : net.segments().first(net.tensors()))
    parameters += static_cast<double>(s.size);
  upload<idle_cuda> uploaded(device);
  std::size_t inputs = count.device_bytes;
  const auto batches = uploaded.to(feed.next(), run.compute());
  inputs = count.device_bytes - inputs;
  (void)run.step(batches, 0);
  const detail::train::memory_plan plan = run.plan_memory(2);
  CHECK(plan.total() == count.device_bytes - inputs);
  const auto beside = [&](auto... names) { return static_cast<double>((plan.bytes(names) + ...)); };
  CHECK(beside("packed weights", "gradients", "norms and status") <= 2.2 * parameters);
  CHECK(beside("workspace") <= 0.19 * parameters);
}
