// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of the user's own on a GPU, with reducers over the test double of NCCL. Streams are
// threads, so that nothing but an event orders one behind another.
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/device_quadratic.hpp"
#include "tests/support/nccl_double_gpu.hpp"
#include "tests/support/threaded_gpu.hpp"

using namespace cordee;
using namespace support;

namespace {

static_assert(
    detail::train::ExchangesOnStream<custom_model<shift, fp64, threaded_gpu>, native<nccl>>);

/// Each rank's weights after four steps with buckets of one tensor.
template <class Make>
std::vector<std::vector<double>> weights_over(const Make& make, int ranks, calls order,
                                              kernels_on where) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(ranks));
  launch_nccl(
      ranks,
      [&](nccl comm) {
        const threaded_gpu device;
        auto model = quadratic_model_on<fp64>(device, order, where);
        trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, make(comm), {.bucket_bytes = 8}};
        CHECK(run.buckets().size() == 4);
        for (int k = 0; k < 4; ++k) {
          const auto out = run.step(
              k == 2 && comm.rank() == 0 ? std::nan("") : shift_of(comm.rank(), ranks), 1, k);
          CHECK(out.applied == (k != 2));
          CHECK(out.train.loss == 1);
        }
        all[static_cast<std::size_t>(comm.rank())] =
            copy_to_host<double, threaded_gpu>(device, run.weights(), run.compute());
      },
      std::chrono::seconds(30));
  return all;
}
std::vector<double> weights_on_cpu(int ranks) {
  return on_ranks(ranks, [&](threads comm) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    for (int k = 0; k < 4; ++k)
      run.step(k == 2 && comm.rank() == 0 ? std::nan("") : shift_of(comm.rank(), ranks), 1, k);
    return copy(run.weights());
  })[0];
}

}  // namespace

TEST_CASE("nccl: a model of the user's own on a GPU has the CPU's weights, on any stream") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto on_cpu = weights_on_cpu(ranks);
    const auto check = [&](const auto& make, calls order) {
      const auto expected = weights_over(make, ranks, order, kernels_on::step)[0];
      CHECK(same_but_for_rounding(expected, on_cpu));
      for (const kernels_on where : {kernels_on::step, kernels_on::own})
        for (const auto& weights : weights_over(make, ranks, order, where))
          CHECK(same_bits(weights, expected));
    };
    check([](nccl comm) { return ring{comm}; }, calls::mixed);
    check([](nccl comm) { return native{comm}; }, calls::descending);
  }
}
