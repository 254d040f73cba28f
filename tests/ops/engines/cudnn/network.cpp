// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Steps of a network whose parameters and gradients are packed by one launch, and the same layer by
// layer; and the fully connected layer by convolutions.
#include <vector>

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

#include "tests/nn/linear_as_convolution.hpp"
#include "tests/support/cudnn_on_host.hpp"

using namespace cordee;
using namespace support;

namespace {

struct cudnn_by_layer : cudnn {
  static constexpr bool packs_by_table = false;
};

constexpr resnet_options small{.image = {1, 8, 8}, .zero_gamma = false};
const synthetic images{.extent = small.image, .classes = 10, .samples = 64, .seed = 3};

template <class P, class Engine>
std::vector<float> train(int accumulate, bool overlap) {
  const host_cuda device;
  resnet<8, P, host_cuda, small, Engine> net{device};
  loader feed{images, self_comm{}, {.global_batch = 4 * accumulate, .accumulate = accumulate}};
  trainer run{net,
              lars{.trust_coefficient = 0.01},
              constant{.learning_rate = 0.2},
              solo{},
              {.bucket_bytes = 30'000, .overlap = overlap, .loss_scaling = {.initial = 1024}}};
  upload<host_cuda> uploaded(device);
  for (int k = 0; k < 2; ++k) {
    const auto step = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    CHECK(step.applied);
  }
  CHECK(run.step({}, 1).train.count == 0);  // a rank without samples
  return copy_to_host<float, host_cuda>(device, run.weights(), run.compute());
}

}  // namespace

TEST_CASE("cudnn: gradients that stay packed until a bucket is complete have the same bits") {
  host_cudnn fresh;
  host_state() = fresh;
  for (const int accumulate : {1, 3}) {
    CHECK(train<fp16, cudnn>(accumulate, true) == train<fp16, cudnn_by_layer>(accumulate, true));
    CHECK(train<fp32, cudnn>(accumulate, false) == train<fp32, cudnn_by_layer>(accumulate, false));
  }
}

TEST_CASE_TEMPLATE("cudnn: the fully connected layer's products are the CPU's, rounded", P, fp16,
                   bf16) {
  host_cudnn fresh;
  host_state() = fresh;
  linear_by_convolution_is_the_cpus<P, cudnn>(host_cuda{});
}
