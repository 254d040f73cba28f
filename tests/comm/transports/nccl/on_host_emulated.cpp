// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Updates by the host whose buckets are exchanged on a stream, over the test double of NCCL.
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/loss.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/threaded_gpu.hpp"
#include "tests/support/written_model.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Its metrics are in the device's memory, so that the exchange is work of a stream.
template <class D>
struct metered_model : written_model<fp16, D> {
  std::shared_ptr<buffer<detail::ops::metric_sums, D>> sums =
      std::make_shared<buffer<detail::ops::metric_sums, D>>(D{}, 1);

  [[nodiscard]] span_on<const detail::ops::metric_sums, D> device_metrics() const {
    return std::as_const(*sums).span();
  }
  [[nodiscard]] static metrics metrics_of(const detail::ops::metric_sums&) { return {0, 0, 0, 1}; }
};

struct half {
  double operator()(double) const { return 0.5; }
};

/// Weights and slots after four steps, one of which is skipped.
template <class D, class O, class R>
std::vector<float> train(const D& device, const O& optimizer, const R& reducer) {
  metered_model<D> model;
  model.table = written_table;
  model.on = device;
  if (reducer.comm.rank() == 0) model.poisoned_step = 1;
  trainer run{model, optimizer, half{}, reducer, {.bucket_bytes = 1600}};
  for (int k = 0; k < 4; ++k) {
    std::vector<batch<D>> micro(2);
    for (batch<D>& b : micro) {
      b.count = 1;
      b.global_samples = 2 * reducer.comm.size();
      b.ranks = reducer.comm.size();
      b.first_sample = 8 * reducer.comm.rank() + (&b - micro.data());
    }
    model.micro_batches = 2;
    CHECK(run.step(micro, k).applied == (k != 1));
  }
  std::vector<float> all;
  const auto add = [&](auto plane) {
    const auto host = copy_to_host<float, D>(device, plane, run.compute());
    all.insert(all.end(), host.begin(), host.end());
  };
  add(run.weights());
  for (int k = 0; k < O::slots; ++k) add(run.slot(k));
  return all;
}

const clip optimizer{lamb{}, 0.5};
static_assert(detail::train::ExchangesOnStream<metered_model<threaded_gpu>, native<nccl>>);

}  // namespace

TEST_CASE("on_host: over NCCL the host updates by the mean, with a CPU's bits") {
  for (const int ranks : {1, 2}) {  // a sum of two does not depend on their order
    CAPTURE(ranks);
    const auto expected =
        on_ranks(ranks, [](threads comm) { return train(cpu(1), optimizer, ring{comm}); });
    launch_nccl(
        ranks,
        [&](nccl comm) {
          const threaded_gpu device;
          const on_host placed{optimizer, false, 1};
          CHECK(train(device, placed, native{comm}) == expected[0]);
        },
        std::chrono::seconds(60));
  }
}
