// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A plan key as an operation graph of cuDNN: three NHWC tensors and one convolution operation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <cordee/ops/engines/cudnn/descriptor.hpp>
#include <cordee/ops/engines/cudnn/plan_key.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The device that plans are made for: the GPU of a handle, or one given by a descriptor of its
/// properties, which needs no GPU.
struct cudnn_target {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<const cudnn_descriptor> device;  // CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
};

/// Unique ids of the graph's tensors.
inline constexpr std::int64_t cudnn_x_id = 1, cudnn_w_id = 2, cudnn_y_id = 3;

/// The operation of a pass and its attributes.
struct cudnn_operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
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

/// A problem as cuDNN gets it: channels, height and width of x, those of the windows, and of each
/// axis the stride and the padding on either side. Images with a margin are read by pairs of
/// columns (ops/gpu/paired_columns.hpp).
struct cudnn_shape {
  std::array<std::int64_t, 3> x, w;
  std::array<std::int64_t, 2> stride, padding;

  explicit cudnn_shape(const convolution_problem& p)
      : x{p.in.channels, p.in.height, p.in.width},
        w{p.in.channels, p.window, p.window},
        stride{p.stride, p.stride},
        padding{p.padding, p.padding} {
    if (p.margin == 0) return;
    x = {2 * x[0], x[1], (x[2] + p.margin) / 2};
    w = {2 * w[0], w[1], (w[2] + 1) / 2};
    stride[1] /= 2;
    padding[1] = (padding[1] + 1) / 2 - p.margin / 2;
  }
};
inline cudnn_descriptor cudnn_convolution(const convolution_problem& p) {
  const cudnn_shape shape(p);
  return cudnn_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .with(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .with(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .with(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .with(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, shape.stride)
      .with(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, shape.padding)
      .with(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, shape.padding)
      .with(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::array<std::int64_t, 2>{1, 1})
      .finalized();
}

/// An operation graph and its descriptors, kept alive with it: cuDNN does not promise to copy them.
class cudnn_graph {
 public:
  cudnn_graph(const cudnn_plan_key& key, const cudnn_target& target)
      : x_(tensor(cudnn_x_id, key.data_type, key.samples, cudnn_shape(key.p).x)),
        w_(tensor(cudnn_w_id, key.data_type, key.p.filters, cudnn_shape(key.p).w)),
        y_(tensor(cudnn_y_id, key.data_type, key.samples,
                  {key.p.filters, key.p.out().height, key.p.out().width})),
        convolution_(cudnn_convolution(key.p)),
        operation_(operation(key)),
        graph_(graph(target)) {}

  [[nodiscard]] const cudnn_descriptor& get() const { return graph_; }

 private:
  /// (n, c, h, w) with the strides of NHWC; n counts samples or filters.
  static cudnn_descriptor tensor(std::int64_t id, cudnnDataType_t type, int n,
                                 const std::array<std::int64_t, 3>& each) {
    const auto [c, h, w] = each;
    return cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .with(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
        .with(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .with(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{n, c, h, w})
        .with(CUDNN_ATTR_TENSOR_STRIDES, std::array<std::int64_t, 4>{h * w * c, 1, w * c, c})
        .with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
        .finalized();
  }
  [[nodiscard]] cudnn_descriptor operation(const cudnn_plan_key& key) const {
    const cudnn_operation& attribute = cudnn_operations[static_cast<std::size_t>(key.pass)];
    return cudnn_descriptor(attribute.type)
        .with(attribute.convolution, convolution_)
        .with(attribute.x, x_)
        .with(attribute.w, w_)
        .with(attribute.y, y_)
        .with(attribute.alpha, 1.0f)
        .with(attribute.beta, key.accumulate ? 1.0f : 0.0f)
        .finalized();
  }
  [[nodiscard]] cudnn_descriptor graph(const cudnn_target& target) const {
    cudnn_descriptor graph = cudnn_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                                 .with(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_);
    if (!target.device)
      graph = std::move(graph).with(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
    return std::move(graph).finalized();
  }

  cudnn_descriptor x_, w_, y_, convolution_, operation_, graph_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
