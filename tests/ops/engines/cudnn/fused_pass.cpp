// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/fused_pass.hpp>
#include <cordee/ops/engines/cudnn/plan_cache.hpp>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/device_vectors.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

TEST_CASE("fused_pass: a place in words") {
  CHECK(describe(cudnn_place{
            fused_graph::dgrad_relu_bn, {{64, 14, 14}, 128, 3, 2, 1}, 32, CUDNN_DATA_BFLOAT16}) ==
        "dgrad_relu_bn 64x14x14 128 window 3 stride 2 padding 1 samples 32 bf16");
}

TEST_CASE("fused_pass: a variant pack for each set of addresses") {
  host_state() = host_cudnn{};
  const host_cuda device;
  const auto s = device.make_stream();
  const convolution_problem p{{8, 2, 2}, 8, 1, 1, 0};
  using halves = std::vector<half>;
  device_vector<half, host_cuda> x(device, s, halves(64, half::nearest(1.0f))),
      w(device, s, halves(64, half::nearest(0.5f))), y(device, s, halves(64)),
      other(device, s, halves(64));
  device_vector<float, host_cuda> sums(device, s, std::vector<float>(16));
  cudnn_plan_cache::current().with_handle(s, [&](cudnnHandle_t handle) {
    const cudnn_target target{handle, nullptr};
    const auto graph = std::make_shared<const cudnn_fused_graph>(fused_graph::conv_stats, p, 2,
                                                                 CUDNN_DATA_HALF, target);
    auto plans = cudnn_fused_plans(*graph, target, 3);
    REQUIRE(plans.size() == 1);
    cudnn_fused_pass pass(graph, std::move(plans.front()));
    host_state().variant_packs = 0;
    for (int k = 0; k < 3; ++k)
      for (half* const to : {y.data(), other.data()})
        pass.execute(handle, {x.data(), w.data(), to, sums.data(), sums.data() + 8}, s);
    CHECK(host_state().variant_packs == 2);
    CHECK(host_state().fused == 6);
  });
  CHECK(y.read()[63].exact() == 4);
  CHECK(other.read()[63].exact() == 4);
  CHECK(sums.read()[7] == 2 * 4 * 4);
  CHECK(sums.read()[15] == 2 * 4 * 16);
}
