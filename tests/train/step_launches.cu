// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a step of ResNet-50 asks of the CUDA runtime, counted by its double: nvcc's host code of the
// real trainer runs, kernels do not. The numbers depend on the network's table, not on its image.
#include <array>
#include <string>

#include <doctest/doctest.h>

#include <cordee/cordee.cuh>
#include <cordee/cordee.hpp>

#include "tests/support/cuda_on_host.hpp"
#include "tests/support/cudnn_double.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options small_image{.image = {3, 64, 64}, .classes = 1000};
using resnet50 = resnet<50, fp16, gpu, small_image, cudnn>;

struct counts {
  std::size_t launches, graphs, executions, variant_packs, copies, clears, waits, pool_calls,
      allocations;
};
counts difference(const host_cuda_state& a, const host_cuda_state& b, std::size_t executions,
                  std::size_t variant_packs) {
  return {b.launches - a.launches,
          b.graph_launches - a.graph_launches,
          executions,
          variant_packs,
          b.copies - a.copies,
          b.clears - a.clears,
          b.waits - a.waits,
          b.pool_calls - a.pool_calls,
          b.allocations - a.allocations};
}

/// The counts of each of eight steps of `accumulate` micro-batches; the loader's part included.
template <class Between>
std::array<counts, 8> count_steps(bool capture_graphs, int accumulate, const Between& between) {
  host_cudnn cudnn_double;
  cudnn_double.computes = false;
  host_state() = cudnn_double;
  resnet50 net{gpu{}};
  // The kernel that would write the metrics does not run: no sample has a label out of range.
  const_cast<detail::ops::metric_sums*>(net.device_metrics().data)->bad_sample = -1;
  const synthetic images{.extent = small_image.image, .classes = 1000, .samples = 64};
  loader feed{images, self_comm{}, {.global_batch = 2 * accumulate, .accumulate = accumulate}};
  trainer run{
      net, lars{}, constant{.learning_rate = 0.1}, solo{}, {.capture_graphs = capture_graphs}};
  upload<gpu> uploaded(net.where());
  std::array<counts, 8> out{};
  auto batches = uploaded.to(feed.next(), run.compute());
  for (counts& c : out) {
    between(&c - out.data(), run);
    const host_cuda_state before = host_cuda_counts();
    host_state().executed.clear();
    host_state().variant_packs = 0;
    (void)run.step(batches, 0, [&] { batches = uploaded.to(feed.next(), run.compute()); });
    c = difference(before, host_cuda_counts(), host_state().executed.size(),
                   static_cast<std::size_t>(host_state().variant_packs));
    INFO(c.launches, " launches, ", c.graphs, " graphs, ", c.executions, " executions, ",
         c.variant_packs, " variant packs, ", c.copies, " copies, ", c.clears, " clears, ", c.waits,
         " waits, ", c.pool_calls, " pool calls, ", c.allocations, " allocations");
  }
  return out;
}

constexpr auto nothing = [](auto, auto&) {};

}  // namespace

TEST_CASE("ResNet-50, eager: launches, waits and allocations of a step") {
  const auto steps = count_steps(false, 1, nothing);
  for (std::size_t k = 1; k < steps.size(); ++k) {
    CHECK(steps[k].launches <= 350);
    CHECK(steps[k].waits == 1);
    CHECK(steps[k].pool_calls == 0);
    CHECK(steps[k].allocations == 0);
  }
  CHECK(steps[2].executions == 158);
  for (std::size_t k = 3; k < steps.size(); ++k) CHECK(steps[k].variant_packs == 0);
}

TEST_CASE("ResNet-50, captured: a step is one graph") {
  const auto steps = count_steps(true, 1, nothing);
  for (std::size_t k = 2; k < steps.size(); ++k) {
    CHECK(steps[k].graphs == 1);
    CHECK(steps[k].launches == 1);  // that which begins the step
    CHECK(steps[k].waits == 1);
    CHECK(steps[k].pool_calls == 0);
  }
}

TEST_CASE("ResNet-50, captured: temporary memory that has moved is not replayed") {
  const auto steps = count_steps(true, 1, [](auto k, auto& run) {
    if (k == 4) run.compute().release(run.compute().allocate(std::size_t{64} << 20));
  });
  for (const std::size_t k : {2, 3, 6, 7}) CHECK(steps[k].graphs == 1);
  for (const std::size_t k : {0, 1, 4, 5}) CHECK(steps[k].graphs == 0);
}

TEST_CASE("ResNet-50, eager: accumulated micro-batches cost a pass each, and no further wait") {
  const auto steps = count_steps(false, 2, nothing);
  CHECK(steps[2].executions == 2 * 158);
  CHECK(steps[2].launches < 2 * 350);
  CHECK(steps[2].clears == 0);
  CHECK(steps[2].waits == 1);
  CHECK(steps[2].pool_calls == 0);
}
