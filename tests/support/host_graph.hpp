// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The attributes of cuDNN's backend descriptors, and the convolution that they define, in plain
// loops.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/cudnn_on_host.hpp"

namespace support::host {
struct descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  host_engine engine;                 // for engines and engine configurations
  const descriptor* graph = nullptr;  // for engine configurations
  std::map<cudnnBackendAttributeName_t, std::vector<unsigned char>> values;

  template <class T>
  [[nodiscard]] T value(cudnnBackendAttributeName_t name, std::size_t i = 0) const {
    T found;
    std::memcpy(&found, values.at(name).data() + i * sizeof(T), sizeof(T));
    return found;
  }
  [[nodiscard]] std::int64_t int64(cudnnBackendAttributeName_t name, std::size_t i = 0) const {
    return value<std::int64_t>(name, i);
  }
  [[nodiscard]] const descriptor& part(cudnnBackendAttributeName_t name) const {
    return *static_cast<const descriptor*>(value<void*>(name));
  }
};
inline descriptor& descriptor_of(cudnnBackendDescriptor_t raw) {
  return *static_cast<descriptor*>(raw);
}

inline std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

/// Memory with the dimensions and strides of a tensor descriptor.
struct tensor {
  tensor(const descriptor& words, void* at)
      : dims(four(words, CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(four(words, CUDNN_ATTR_TENSOR_STRIDES)),
        type(words.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        memory(at) {}

  using index = std::array<std::int64_t, 4>;
  static index four(const descriptor& words, cudnnBackendAttributeName_t name) {
    return {words.int64(name, 0), words.int64(name, 1), words.int64(name, 2), words.int64(name, 3)};
  }
  [[nodiscard]] std::int64_t at(const index& i) const {
    return std::inner_product(i.begin(), i.end(), strides.begin(), std::int64_t{0});
  }
  /// Numbers from the first to the last, those between included.
  [[nodiscard]] std::int64_t numbers() const {
    return at({dims[0] - 1, dims[1] - 1, dims[2] - 1, dims[3] - 1}) + 1;
  }
  [[nodiscard]] double read(std::int64_t i) const {
    if (type == CUDNN_DATA_HALF) return static_cast<cordee::half*>(memory)[i].exact();
    if (type == CUDNN_DATA_BFLOAT16) return static_cast<cordee::bfloat*>(memory)[i].exact();
    return static_cast<float*>(memory)[i];
  }
  void write(std::int64_t i, double x) const {
    const float rounded = static_cast<float>(x);
    if (type == CUDNN_DATA_HALF)
      static_cast<cordee::half*>(memory)[i] = cordee::half::nearest(rounded);
    else if (type == CUDNN_DATA_BFLOAT16)
      static_cast<cordee::bfloat*>(memory)[i] = cordee::bfloat::nearest(rounded);
    else
      static_cast<float*>(memory)[i] = rounded;
  }

  index dims, strides;
  cudnnDataType_t type;
  void* memory;
};

/// The attribute operation_attributes of an operation.
struct operation_attributes {
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};
inline const std::map<cudnnBackendDescriptorType_t, operation_attributes> operations{
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}};

/// Adds every product to the tensor that the operation writes.
inline void compute(const descriptor& o, const tensor& x, const tensor& w, const tensor& y) {
  const operation_attributes& n = operations.at(o.type);
  const descriptor& window = o.part(n.window);
  const bool forward = o.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool data = o.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const tensor& result = forward ? y : data ? x : w;
  std::vector<double> sums(static_cast<std::size_t>(result.numbers()));
  std::array<std::int64_t, 2> stride{}, before{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    stride[axis] = window.int64(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axis);
    before[axis] = window.int64(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axis);
  }
  const auto of = [](std::int64_t at) { return static_cast<std::size_t>(at); };
  tensor::index i{};
  for (i[0] = 0; i[0] < y.dims[0]; ++i[0])
    for (i[1] = 0; i[1] < y.dims[1]; ++i[1])
      for (i[2] = 0; i[2] < y.dims[2]; ++i[2])
        for (i[3] = 0; i[3] < y.dims[3]; ++i[3])
          for (std::int64_t c = 0; c < x.dims[1]; ++c)
            for (std::int64_t r = 0; r < w.dims[2]; ++r)
              for (std::int64_t s = 0; s < w.dims[3]; ++s) {
                const std::int64_t h = i[2] * stride[0] + r - before[0];
                const std::int64_t l = i[3] * stride[1] + s - before[1];
                if (h < 0 || l < 0 || h >= x.dims[2] || l >= x.dims[3]) continue;
                const auto at_x = x.at({i[0], c, h, l}), at_w = w.at({i[1], c, r, s}),
                           at_y = y.at(i);
                if (forward)
                  sums[of(at_y)] += x.read(at_x) * w.read(at_w);
                else if (data)
                  sums[of(at_x)] += y.read(at_y) * w.read(at_w);
                else
                  sums[of(at_w)] += x.read(at_x) * y.read(at_y);
              }
  const auto alpha = o.value<float>(n.alpha), beta = o.value<float>(n.beta);
  for (i[0] = 0; i[0] < result.dims[0]; ++i[0])
    for (i[1] = 0; i[1] < result.dims[1]; ++i[1])
      for (i[2] = 0; i[2] < result.dims[2]; ++i[2])
        for (i[3] = 0; i[3] < result.dims[3]; ++i[3]) {
          const std::int64_t at = result.at(i);
          result.write(at, alpha * sums[of(at)] + (beta == 0 ? 0 : beta * result.read(at)));
        }
}

inline bool fits(const descriptor& o) {
  const operation_attributes& n = operations.at(o.type);
  const descriptor& window = o.part(n.window);
  const tensor x(o.part(n.x), nullptr), w(o.part(n.w), nullptr), y(o.part(n.y), nullptr);
  const auto out = [&](std::size_t axis) {
    return (x.dims[axis + 2] + window.int64(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axis) +
            window.int64(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, axis) - w.dims[axis + 2]) /
               window.int64(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axis) +
           1;
  };
  return window.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) ==
             CUDNN_CROSS_CORRELATION &&
         x.dims[0] > 0 && y.dims == tensor::index{x.dims[0], w.dims[0], out(0), out(1)} &&
         w.dims[1] == x.dims[1];
}

}  // namespace support::host
