// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A question as a graph of cuDNN's: three tensors in NHWC and the operation between them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <cordee/ops/grid/cudnn/descriptor.hpp>
#include <cordee/ops/grid/cudnn/question.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Where plans are made for: the GPU of a handle or, without one, a device that was described.
struct cudnn_target {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<const cudnn_descriptor> device;
};

/// cuDNN's names for the tensors of a graph.
inline constexpr std::int64_t cudnn_x = 1, cudnn_w = 2, cudnn_y = 3;

/// What cuDNN calls a pass and its attributes.
struct cudnn_operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
};
inline constexpr std::array<cudnn_operation, 3> cudnn_operations{
    {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
     {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
     {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}};

/// A graph and its parts, which live as long: cuDNN does not say that it copies them.
class cudnn_graph {
 public:
  cudnn_graph(const cudnn_question& q, const cudnn_target& target)
      : x_(tensor(cudnn_x, q.number, q.samples, q.p.in)),
        w_(tensor(cudnn_w, q.number, q.p.filters, {q.p.in.channels, q.p.window, q.p.window})),
        y_(tensor(cudnn_y, q.number, q.samples, q.p.out())),
        window_(window(q.p)),
        operation_(operation(q)),
        graph_(graph(target)) {}

  [[nodiscard]] const cudnn_descriptor& get() const { return graph_; }

 private:
  /// n images, or filters, with channels innermost.
  static cudnn_descriptor tensor(std::int64_t id, cudnnDataType_t type, int n, const extent& e) {
    const std::int64_t c = e.channels, h = e.height, w = e.width;
    return cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .with(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .with(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .with(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{n, c, h, w})
        .with(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{h * w * c, 1, w * c, c})
        .with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
        .finalised();
  }
  static cudnn_descriptor window(const convolution_problem& p) {
    const auto both = [](std::int64_t v) { return std::array<std::int64_t, 2>{v, v}; };
    return cudnn_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .with(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .with(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
        .with(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
        .with(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, both(p.stride))
        .with(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, both(p.padding))
        .with(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, both(p.padding))
        .with(CUDNN_ATTR_CONVOLUTION_DILATIONS, both(1))
        .finalised();
  }
  [[nodiscard]] cudnn_descriptor operation(const cudnn_question& q) const {
    const cudnn_operation& of = cudnn_operations[static_cast<std::size_t>(q.pass)];
    return cudnn_descriptor(of.type)
        .with(of.window, window_)
        .with(of.x, x_)
        .with(of.w, w_)
        .with(of.y, y_)
        .with(of.alpha, 1.0f)
        .with(of.beta, q.adds ? 1.0f : 0.0f)
        .finalised();
  }
  [[nodiscard]] cudnn_descriptor graph(const cudnn_target& target) const {
    cudnn_descriptor made = cudnn_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                                .with(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    if (!target.device)
      made = std::move(made).with(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
    return std::move(made).finalised();
  }

  cudnn_descriptor x_, w_, y_, window_, operation_, graph_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
