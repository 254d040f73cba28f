// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Plans for GPUs that are described to cuDNN: nothing in this file needs a GPU.
#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/fused_graphs.hpp>

#include "benchmarks/fused_shapes.hpp"
#include "tests/support/described_gpus.hpp"
#include "tests/support/fused_reference.hpp"

using namespace cordee;
using detail::ops::cudnn_fused_graph;
using detail::ops::fused_graph;

TEST_CASE("fused_graphs: an H200 supports each where ResNet-50 has it, at four batch sizes") {
  const auto device = support::h200();
  for (const fused_graph kind : detail::ops::fused_graphs)
    for (const auto& p : bench::fused_shapes)
      for (const int samples : {32, 128, 256, 1024}) {
        if (!bench::has_fused_graph(kind, p)) continue;
        CAPTURE(describe(kind));
        CAPTURE(describe(p.in));
        CAPTURE(p.filters);
        CAPTURE(samples);
        const cudnn_fused_graph graph(kind, p, samples, CUDNN_DATA_HALF, device);
        CHECK(detail::ops::cudnn_fused_plans(graph, device, 1).size() == 1);
      }
}

TEST_CASE(
    "fused_graphs: a stem by pairs of columns has statistics, of images of four channels not") {
  convolution_problem stem{{4, 224, 224}, 64, 7, 2, 3};
  const auto plans = [&](const detail::ops::cudnn_target& device, int samples) {
    const cudnn_fused_graph graph(fused_graph::conv_stats, stem, samples, CUDNN_DATA_HALF, device);
    return detail::ops::cudnn_fused_plans(graph, device, 1).size();
  };
  CHECK(plans(support::h200(), 256) == 0);
  stem.margin = 2;
  for (const auto& device : {support::h200(), support::h100(), support::b200()})
    for (const int samples : {32, 256, 1024}) CHECK(plans(device, samples) == 1);
}

TEST_CASE(
    "fused_graphs: an H100 supports them, too; a B200 all but forward at the ends of blocks") {
  const auto h100 = support::h100(), b200 = support::b200();
  for (const fused_graph kind : detail::ops::fused_graphs)
    for (const auto& p : bench::fused_shapes) {
      if (!bench::has_fused_graph(kind, p)) continue;
      CAPTURE(describe(kind));
      CAPTURE(describe(p.in));
      CAPTURE(p.filters);
      const auto plans = [&](const detail::ops::cudnn_target& device) {
        const cudnn_fused_graph graph(kind, p, 256, CUDNN_DATA_HALF, device);
        return detail::ops::cudnn_fused_plans(graph, device, 1).size();
      };
      CHECK(plans(h100) == 1);
      CHECK(plans(b200) == (adds_residual(kind) && !is_input_gradient(kind) ? 0 : 1));
    }
}

TEST_CASE("fused_graphs: only tensors in memory are named, each once and with its bytes") {
  const auto device = support::h200();
  const convolution_problem p{{64, 14, 14}, 128, 3, 2, 1};
  constexpr std::size_t x = 2 * 4 * 64 * 14 * 14, y = 2 * 4 * 128 * 7 * 7, w = 2 * 128 * 64 * 9;
  using sizes = std::multiset<std::size_t>;
  const auto bytes = [&](fused_graph kind) {
    const cudnn_fused_graph graph(kind, p, 4, CUDNN_DATA_HALF, device);
    sizes found;
    std::set<std::int64_t> ids;
    for (const detail::ops::fused_tensor& t : graph.tensors()) {
      found.insert(t.bytes);
      ids.insert(t.id);
    }
    CHECK(ids.size() == found.size());
    return found;
  };
  CHECK(bytes(fused_graph::conv_stats) == sizes{x, w, y, 4 * 128, 4 * 128});
  CHECK(bytes(fused_graph::bn_relu_conv_stats) == sizes{x, w, y, 2 * 64, 2 * 64, 4 * 128, 4 * 128});
  CHECK(bytes(fused_graph::bn_add_relu_conv_stats) ==
        sizes{x, x, x, w, y, 2 * 64, 2 * 64, 4 * 128, 4 * 128});
  CHECK(bytes(fused_graph::dual_bn_relu_conv_stats) ==
        sizes{x, x, x, w, y, 2 * 64, 2 * 64, 2 * 64, 2 * 64, 4 * 128, 4 * 128});
  CHECK(bytes(fused_graph::bn_relu_wgrad) == sizes{x, w, y, 2 * 64, 2 * 64});
  CHECK(bytes(fused_graph::dgrad_relu_bn) ==
        sizes{x, x, w, y, 256, 256, 256, 256, 256, 256, 256, 256, 256});
  CHECK(bytes(fused_graph::dgrad_add_pooled_bn) ==
        sizes{x, x, x, w, y, 256, 256, 256, 256, 256, 256, 256, 256, 256});
  CHECK(bytes(fused_graph::dgrad_add_relu_bn) ==
        sizes{x, x, x, x, w, y, 256, 256, 256, 256, 256, 256, 256, 256, 256});
}

TEST_CASE(
    "fused_graphs: the tensors are those of the equations that a GPU's values are compared with") {
  const auto device = support::h200();
  const convolution_problem p{{64, 14, 14}, 128, 3, 2, 1};
  for (const fused_graph kind : detail::ops::fused_graphs) {
    CAPTURE(describe(kind));
    const cudnn_fused_graph graph(kind, p, 4, CUDNN_DATA_HALF, device);
    const support::fused_reference reference(kind, p, 4);
    REQUIRE(graph.tensors().size() == reference.size());
    for (std::size_t k = 0; k < reference.size(); ++k)
      CHECK(graph.tensors()[k].bytes == reference.bytes(k));
  }
}

TEST_CASE("fused_graphs: no engine fuses them in fp32 or bf16, so that the list is empty") {
  for (const auto& device : {support::h200(), support::b200()})
    for (const auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16})
      for (const fused_graph kind : detail::ops::fused_graphs)
        for (const auto& p : bench::fused_shapes) {
          const cudnn_fused_graph graph(kind, p, 32, type, device);
          CAPTURE(describe(kind));
          CHECK(detail::ops::cudnn_fused_plans(graph, device, 1).empty());
        }
}
