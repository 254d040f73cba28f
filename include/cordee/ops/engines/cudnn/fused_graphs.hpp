// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Operation graphs of cuDNN that compute a convolution together with the batch normalization beside
// it, so that activations are read and written once instead of three times:
//
//   conv_stats             y = w * x;                sum_c y, sum_c y^2
//   bn_relu_conv_stats     y = w * relu(s x + b);    sum_c y, sum_c y^2
//   bn_add_relu_conv_stats y = w * z,  z = relu(s x + b + r), which is stored; the same sums
//   dual_bn_relu_conv_stats  the same with z = relu(s x + b + s' x' + b'), where a projection ends
//   bn_relu_wgrad          dw = relu(s x + b) * dy
//   dgrad_relu_bn          dz = (w' * dy) [t > 0],  t = (x - mean) invstd gamma + beta;
//                          dgamma = sum_c dz (x - mean) invstd,  dbeta = sum_c dz, and the factors
//                          with which dx = a dz + b' x + c' is computed in the next prologue
//   dgrad_add_relu_bn      the same with dz = (w' * dy + g) [t + r > 0]: the end of a block
//   dgrad_add_pooled_bn    the same with dz = (w' * dy + g) [t > 0]: behind a max pool that stores
//                          x at its maxima (ops/gpu/normalized_max_pool.hpp)
//   dgrad_dual_relu_bn     dgrad_add_relu_bn with r = (x' - mean') invstd' gamma' + beta', whose
//                          gradients follow
//
// x and y are NHWC in 16 bits; s, b are (1, C, 1, 1) in 16 bits, statistics in float.
// fused_places.hpp says which layers use them; benchmarks/gpu_fused_graphs.cu measures them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/ops/engines/cudnn/graph.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

template <>
inline constexpr auto cudnn_attribute_type<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto cudnn_attribute_type<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto cudnn_attribute_type<cudnnGenStatsMode_t> = CUDNN_TYPE_GENSTATS_MODE;

enum class fused_graph {
  conv_stats,
  bn_relu_conv_stats,
  bn_add_relu_conv_stats,
  dual_bn_relu_conv_stats,
  bn_relu_wgrad,
  dgrad_relu_bn,
  dgrad_add_relu_bn,
  dgrad_dual_relu_bn,
  dgrad_add_pooled_bn
};
inline constexpr std::array fused_graphs{fused_graph::conv_stats,
                                         fused_graph::bn_relu_conv_stats,
                                         fused_graph::bn_add_relu_conv_stats,
                                         fused_graph::dual_bn_relu_conv_stats,
                                         fused_graph::bn_relu_wgrad,
                                         fused_graph::dgrad_relu_bn,
                                         fused_graph::dgrad_add_relu_bn,
                                         fused_graph::dgrad_dual_relu_bn,
                                         fused_graph::dgrad_add_pooled_bn};
/// Whether the convolution reads the end of a residual block: in ResNet-50 a 1x1 of stride 1.
constexpr bool adds_residual(fused_graph kind) {
  return kind == fused_graph::bn_add_relu_conv_stats ||
         kind == fused_graph::dual_bn_relu_conv_stats || kind == fused_graph::dgrad_add_relu_bn ||
         kind == fused_graph::dgrad_dual_relu_bn;
}
/// Whether it is an input gradient that another one is added to.
constexpr bool adds_gradient(fused_graph kind) {
  return kind == fused_graph::dgrad_add_relu_bn || kind == fused_graph::dgrad_dual_relu_bn ||
         kind == fused_graph::dgrad_add_pooled_bn;
}
/// Whether it is an input gradient.
constexpr bool is_input_gradient(fused_graph kind) {
  return kind == fused_graph::dgrad_relu_bn || adds_gradient(kind);
}

inline std::string_view describe(fused_graph kind) {
  constexpr std::array<std::string_view, 9> names{
      "convolution, statistics",
      "batch norm, ReLU, convolution, statistics",
      "batch norm, addition, ReLU, convolution, statistics",
      "two batch norms, addition, ReLU, convolution, statistics",
      "batch norm, ReLU, weight gradient",
      "input gradient, ReLU, gradients of batch norm",
      "input gradient, addition, ReLU, gradients of batch norm",
      "input gradient, addition, ReLU, gradients of two batch norms",
      "input gradient, addition, ReLU of a max pool, gradients of batch norm"};
  return names[static_cast<std::size_t>(kind)];
}

/// A tensor in memory: its id in the variant pack, and its size.
struct fused_tensor {
  std::int64_t id;
  std::size_t bytes;
};

/// A fused graph of one convolution of 16-bit numbers, and its descriptors, kept alive with it.
/// Throws error if cuDNN rejects a descriptor.
class cudnn_fused_graph {
 public:
  cudnn_fused_graph(fused_graph kind, const convolution_problem& p, int samples,
                    cudnnDataType_t type, const cudnn_target& target)
      : type_(type),
        x_(four(samples, cudnn_shape(p).x)),
        w_(four(p.filters, cudnn_shape(p).w)),
        y_{samples, p.filters, p.out().height, p.out().width},
        convolution_(cudnn_convolution(p)) {
    if (kind == fused_graph::conv_stats) {
      add_statistics(add_convolution(in_memory(x_)));
    } else if (kind == fused_graph::bn_relu_conv_stats) {
      add_statistics(add_convolution(add_relu(add_batch_norm(), intermediate(x_))));
    } else if (is_input_gradient(kind)) {
      add_input_gradient(kind);
    } else if (adds_residual(kind)) {
      const handle x = add_batch_norm();
      const handle r =
          kind == fused_graph::dual_bn_relu_conv_stats ? add_batch_norm() : in_memory(x_);
      const handle sum = add_pointwise(CUDNN_POINTWISE_ADD, x, r);
      add_statistics(add_convolution(add_relu(sum, in_memory(x_))));
    } else {
      const handle x = add_relu(add_batch_norm(), intermediate(x_)), dy = in_memory(y_);
      add_pass(convolution_pass::wgrad, x, in_memory(w_), dy);
    }
    finalize(target);
  }

  [[nodiscard]] const cudnn_descriptor& get() const { return *graph_; }
  /// The tensors that the variant pack must name.
  [[nodiscard]] const std::vector<fused_tensor>& tensors() const { return tensors_; }

 private:
  using dims = std::array<std::int64_t, 4>;
  static dims four(std::int64_t n, const std::array<std::int64_t, 3>& of) {
    return {n, of[0], of[1], of[2]};
  }
  using handle = const cudnn_descriptor*;  // a tensor's, in `descriptors_`

  // Tensors: (n, c, h, w) with the strides of NHWC.
  handle tensor(const dims& d, cudnnDataType_t type, bool is_virtual) {
    const std::int64_t id = ++last_id_;
    if (!is_virtual)
      tensors_.push_back({id, static_cast<std::size_t>(d[0] * d[1] * d[2] * d[3]) *
                                  (type == CUDNN_DATA_FLOAT ? 4 : 2)});
    return &descriptors_.emplace_back(
        cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
            .with(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
            .with(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
            .with(CUDNN_ATTR_TENSOR_DIMENSIONS, d)
            .with(CUDNN_ATTR_TENSOR_STRIDES, dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]})
            .with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
            .with(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
            .finalized());
  }
  handle in_memory(const dims& d) { return tensor(d, type_, false); }
  handle intermediate(const dims& d) { return tensor(d, type_, true); }
  handle of_channels(const dims& d, cudnnDataType_t type) {
    return tensor({1, d[1], 1, 1}, type, false);
  }

  // Operations.
  void add_pass(convolution_pass pass, handle x, handle w, handle y) {
    const cudnn_operation& attribute = cudnn_operations[static_cast<std::size_t>(pass)];
    operations_.push_back(cudnn_descriptor(attribute.type)
                              .with(attribute.convolution, convolution_)
                              .with(attribute.x, *x)
                              .with(attribute.w, *w)
                              .with(attribute.y, *y)
                              .with(attribute.alpha, 1.0f)
                              .with(attribute.beta, 0.0f)
                              .finalized());
  }
  handle add_convolution(handle x) {
    const handle w = in_memory(w_), y = in_memory(y_);
    add_pass(convolution_pass::fprop, x, w, y);
    return y;
  }
  const cudnn_descriptor& pointwise(cudnnPointwiseMode_t mode) {
    return descriptors_.emplace_back(cudnn_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                                         .with(CUDNN_ATTR_POINTWISE_MODE, mode)
                                         .with(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                                         .finalized());
  }
  /// x op b, where b is of x's size or of one number per channel.
  handle add_pointwise(cudnnPointwiseMode_t mode, handle x, handle b) {
    const handle y = intermediate(x_);
    operations_.push_back(cudnn_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                              .with(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(mode))
                              .with(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x)
                              .with(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b)
                              .with(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y)
                              .finalized());
    return y;
  }
  /// y = relu(x)
  handle add_relu(handle x, handle y) {
    operations_.push_back(
        cudnn_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            .with(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_RELU_FWD))
            .with(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x)
            .with(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y)
            .finalized());
    return y;
  }
  /// s x + b
  handle add_batch_norm() {
    const handle x = in_memory(x_), scale = of_channels(x_, type_), bias = of_channels(x_, type_);
    return add_pointwise(CUDNN_POINTWISE_ADD, add_pointwise(CUDNN_POINTWISE_MUL, x, scale), bias);
  }
  void add_statistics(handle y) {
    const handle sum = of_channels(y_, CUDNN_DATA_FLOAT),
                 squares = of_channels(y_, CUDNN_DATA_FLOAT);
    operations_.push_back(cudnn_descriptor(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
                              .with(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
                              .with(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
                              .with(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, *y)
                              .with(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, *sum)
                              .with(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, *squares)
                              .finalized());
  }
  /// A batch norm by its statistics: t = (x - mean) invstd gamma + beta.
  struct norm {
    handle x, mean, invstd, gamma, t;
  };
  norm add_normalization() {
    const handle x = in_memory(x_), mean = of_channels(x_, CUDNN_DATA_FLOAT),
                 invstd = of_channels(x_, CUDNN_DATA_FLOAT),
                 gamma = of_channels(x_, CUDNN_DATA_FLOAT),
                 beta = of_channels(x_, CUDNN_DATA_FLOAT);
    const handle centered = add_pointwise(CUDNN_POINTWISE_SUB, x, mean);
    const handle normalized = add_pointwise(CUDNN_POINTWISE_MUL, centered, invstd);
    const handle scaled = add_pointwise(CUDNN_POINTWISE_MUL, normalized, gamma);
    return {x, mean, invstd, gamma, add_pointwise(CUDNN_POINTWISE_ADD, scaled, beta)};
  }
  void add_norm_gradients(const norm& of, handle dz) {
    auto gradients = cudnn_descriptor(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, *of.mean)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, *of.invstd)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, *of.gamma)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, *of.x)
                         .with(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, *dz);
    for (const auto output : {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
                              CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
                              CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
                              CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
                              CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS})
      gradients = std::move(gradients).with(output, *of_channels(x_, CUDNN_DATA_FLOAT));
    operations_.push_back(std::move(gradients).finalized());
  }
  void add_input_gradient(fused_graph kind) {
    const bool dual = kind == fused_graph::dgrad_dual_relu_bn;
    const handle dy = in_memory(y_), w = in_memory(w_);
    handle dx = intermediate(x_);
    add_pass(convolution_pass::dgrad, dx, w, dy);
    const norm first = add_normalization(), second = dual ? add_normalization() : norm{};
    handle t = first.t;
    if (adds_residual(kind))
      t = add_pointwise(CUDNN_POINTWISE_ADD, t, dual ? second.t : in_memory(x_));
    if (adds_gradient(kind)) dx = add_pointwise(CUDNN_POINTWISE_ADD, dx, in_memory(x_));
    const handle dz = in_memory(x_);
    operations_.push_back(
        cudnn_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
            .with(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise(CUDNN_POINTWISE_RELU_BWD))
            .with(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *t)
            .with(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, *dx)
            .with(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, *dz)
            .finalized());
    add_norm_gradients(first, dz);
    if (dual) add_norm_gradients(second, dz);
  }

  void finalize(const cudnn_target& target) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const cudnn_descriptor& operation : operations_) raw.push_back(operation.get());
    cudnn_descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_check(cudnnBackendSetAttribute(graph.get(), CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         static_cast<std::int64_t>(raw.size()), raw.data()),
                "cudnnBackendSetAttribute of a fused graph's operations");
    if (!target.device) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &target.handle, 1);
    graph_ = std::make_unique<cudnn_descriptor>(std::move(graph).finalized());
  }

  cudnnDataType_t type_;
  dims x_, w_, y_;
  cudnn_descriptor convolution_;
  std::int64_t last_id_ = 0;
  std::vector<fused_tensor> tensors_;
  std::deque<cudnn_descriptor> descriptors_;  // addresses stay
  std::vector<cudnn_descriptor> operations_;
  std::unique_ptr<cudnn_descriptor> graph_;
};

/// An execution plan of a fused graph.
struct cudnn_fused_plan {
  cudnn_descriptor config, plan;

  [[nodiscard]] std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(plan.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  }
  /// data[i]: of the graph's tensors()[i].
  void execute(cudnnHandle_t handle, const cudnn_fused_graph& graph, std::vector<void*> data,
               void* workspace) const {
    std::vector<std::int64_t> ids;
    for (const fused_tensor& t : graph.tensors()) ids.push_back(t.id);
    cudnn_descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids.data(), ids.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data.data(), data.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, 1);
    const cudnn_descriptor finalized = std::move(pack).finalized();
    cudnn_check(cudnnBackendExecute(handle, plan.get(), finalized.get()), "cudnnBackendExecute");
  }
};

/// The first `max_plans` plans of the heuristics that the target supports, and whose engines
/// `admits(config)`; empty if there is none.
template <class Admits>
std::vector<cudnn_fused_plan> cudnn_fused_plans(const cudnn_fused_graph& graph,
                                                const cudnn_target& target, std::size_t max_plans,
                                                const Admits& admits) {
  auto heuristics = cudnn_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                        .with(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
                        .with(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  if (target.device)
    heuristics = std::move(heuristics).with(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  std::vector<cudnn_fused_plan> plans;
  if (heuristics.finalize() != CUDNN_STATUS_SUCCESS) return plans;
  for (cudnn_descriptor& config :
       heuristics.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
    if (plans.size() == max_plans) break;
    if (!admits(config)) continue;
    auto plan = cudnn_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                    .with(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan = target.device
               ? std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device)
               : std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
    if (plan.finalize() == CUDNN_STATUS_SUCCESS)
      plans.push_back({std::move(config), std::move(plan)});
  }
  return plans;
}
inline std::vector<cudnn_fused_plan> cudnn_fused_plans(const cudnn_fused_graph& graph,
                                                       const cudnn_target& target,
                                                       std::size_t max_plans) {
  return cudnn_fused_plans(graph, target, max_plans, [](const cudnn_descriptor&) { return true; });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
