// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What measuring the gradient's noise costs, counted: kernels of an emulated GPU and messages.
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 6, 6};
using net_of_two_layers =
    network<sequential<convolution<4, 3>, batch_norm<relu>, global_average_pool, linear<4>>, fp32,
            deferred, reference, image, 4>;
const synthetic images{.extent = image, .classes = 4, .samples = 40, .seed = 3};
constexpr std::size_t steps = 5;

struct cost {
  std::size_t launches = 0, messages = 0, buckets = 0;
};

/// Of rank 0, in five updates of two ranks.
cost cost_of(const trainer_options& options) {
  return on_ranks(2, [&](threads comm) {
    const deferred device(static_cast<std::uint64_t>(1 + comm.rank()));
    net_of_two_layers net{device};
    loader feed{images, comm, {.global_batch = 8}};
    traffic sent;
    trainer run{net, sgd{}, constant{.learning_rate = 0.1},
                ring{counting_communicator{comm, &sent}}, options};
    const std::size_t launches = device.launches(), messages = sent.messages;
    CHECK(run.fit(feed, 1).steps == steps);
    return cost{device.launches() - launches, sent.messages - messages, run.buckets().size()};
  })[0];
}

}  // namespace

TEST_CASE("noise: two kernels a bucket and a message a step while it is measured, else none") {
  const trainer_options plain{.bucket_bytes = 64};
  trainer_options measured = plain;
  measured.measure_gradient_noise = true;
  const cost off = cost_of(plain), on = cost_of(measured);
  CHECK(off.buckets > 1);
  CHECK(on.launches - off.launches == 2 * off.buckets * steps);  // squares, their sum
  CHECK(on.messages - off.messages == steps);
}
