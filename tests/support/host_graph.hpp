// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The operations that cuDNN's backend descriptors define, in plain loops: convolutions, and beside
// them what batch norm's fused graphs have. A number between two operations is rounded to its
// tensor's type.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "tests/support/host_tensor.hpp"

namespace support::host {

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
  // The operands, widened once; of the result there is nothing to read.
  const auto operand = [&](const tensor& t) {
    return &t == &result ? std::vector<double>() : t.all();
  };
  const std::vector<double> xs = operand(x), ws = operand(w), ys = operand(y);
  tensor::index i{};
  for (i[0] = 0; i[0] < y.dims[0]; ++i[0])
    for (i[1] = 0; i[1] < y.dims[1]; ++i[1])
      for (i[2] = 0; i[2] < y.dims[2]; ++i[2])
        for (i[3] = 0; i[3] < y.dims[3]; ++i[3])
          for (std::int64_t c = 0; c < x.dims[1]; ++c)
            for (std::int64_t r = 0; r < w.dims[2]; ++r) {
              const std::int64_t h = i[2] * stride[0] + r - before[0], at_y = y.at(i);
              if (h < 0 || h >= x.dims[2]) continue;
              std::int64_t l = i[3] * stride[1] - before[1], at_x = x.at({i[0], c, h, l}),
                           at_w = w.at({i[1], c, r, 0});
              for (std::int64_t s = 0; s < w.dims[3];
                   ++s, ++l, at_x += x.strides[3], at_w += w.strides[3]) {
                if (l < 0 || l >= x.dims[3]) continue;
                if (forward)
                  sums[of(at_y)] += xs[of(at_x)] * ws[of(at_w)];
                else if (data)
                  sums[of(at_x)] += ys[of(at_y)] * ws[of(at_w)];
                else
                  sums[of(at_w)] += xs[of(at_x)] * ys[of(at_y)];
              }
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

template <class F>
void for_each_number(const tensor& t, const F& f) {
  tensor::index i{};
  for (i[0] = 0; i[0] < t.dims[0]; ++i[0])
    for (i[2] = 0; i[2] < t.dims[2]; ++i[2])
      for (i[3] = 0; i[3] < t.dims[3]; ++i[3])
        for (i[1] = 0; i[1] < t.dims[1]; ++i[1]) f(i);
}

/// y <- op(x), or op(x, b); of ReLU's gradient dx <- dy where x is positive. `of` gives the tensor
/// of an attribute.
template <class Of>
void compute_pointwise(const descriptor& o, const Of& of) {
  const auto mode = o.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const tensor x = of(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  if (mode == CUDNN_POINTWISE_RELU_BWD) {
    const tensor dy = of(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
                 dx = of(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC);
    return for_each_number(dx, [&](const tensor::index& i) {
      dx.write(dx.at(i), x.read(x.at(i)) > 0 ? dy.read(dy.at(i)) : 0);
    });
  }
  const tensor y = of(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (mode == CUDNN_POINTWISE_RELU_FWD)
    return for_each_number(y, [&](const tensor::index& i) {
      const double value = x.read(x.at(i));
      y.write(y.at(i), value < 0 ? 0 : value);
    });
  const tensor b = of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  for_each_number(y, [&](const tensor::index& i) {
    const double first = x.read(x.at(i)), second = b.read(b.broadcast(i));
    y.write(y.at(i), mode == CUDNN_POINTWISE_ADD   ? first + second
                     : mode == CUDNN_POINTWISE_SUB ? first - second
                                                   : first * second);
  });
}

template <class Of>
void compute_statistics(const Of& of) {
  const tensor x = of(CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
               sum = of(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
               squares = of(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC);
  std::vector<double> sums(static_cast<std::size_t>(x.dims[1])), second(sums);
  for_each_number(x, [&](const tensor::index& i) {
    const double value = x.read(x.at(i));
    sums[static_cast<std::size_t>(i[1])] += value;
    second[static_cast<std::size_t>(i[1])] += value * value;
  });
  for_each_number(sum, [&](const tensor::index& i) {
    sum.write(sum.at(i), sums[static_cast<std::size_t>(i[1])]);
    squares.write(squares.at(i), second[static_cast<std::size_t>(i[1])]);
  });
}

/// The gradients of batch norm's parameters, and dx = a dy + b x + c.
template <class Of>
void compute_norm_gradients(const Of& of) {
  const tensor x = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC),
               dy = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC),
               mean = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC),
               invstd = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC),
               gamma = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC),
               dgamma = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC),
               dbeta = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC),
               a = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC),
               b = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC),
               c = of(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS);
  std::vector<double> sums(static_cast<std::size_t>(x.dims[1])), products(sums);
  for_each_number(x, [&](const tensor::index& i) {
    const double g = dy.read(dy.at(i));
    sums[static_cast<std::size_t>(i[1])] += g;
    products[static_cast<std::size_t>(i[1])] +=
        g * (x.read(x.at(i)) - mean.read(mean.broadcast(i))) * invstd.read(invstd.broadcast(i));
  });
  const auto count = static_cast<double>(x.dims[0] * x.dims[2] * x.dims[3]);
  for_each_number(dgamma, [&](const tensor::index& i) {
    const std::int64_t at = dgamma.at(i);
    const double sum = sums[static_cast<std::size_t>(i[1])],
                 product = products[static_cast<std::size_t>(i[1])],
                 factor = gamma.read(at) * invstd.read(at),
                 slope = factor * invstd.read(at) * product / count;
    dgamma.write(at, product);
    dbeta.write(at, sum);
    a.write(at, factor);
    b.write(at, -slope);
    c.write(at, slope * mean.read(at) - factor * sum / count);
  });
}

/// Computes the operations of a graph in their order. `memory(words)` is that of a tensor's
/// descriptor, null for one that the variant pack does not name.
template <class Memory>
void compute_graph(const descriptor& graph, const Memory& memory) {
  std::map<std::int64_t, std::vector<unsigned char>> intermediate;
  for (std::size_t k = 0; k < graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS); ++k) {
    const descriptor& o = graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS, k);
    const auto of = [&](cudnnBackendAttributeName_t name) {
      const descriptor& words = o.part(name);
      tensor t(words, memory(words));
      if (t.memory == nullptr) {
        auto& bytes = intermediate[words.int64(CUDNN_ATTR_TENSOR_UNIQUE_ID)];
        bytes.resize(static_cast<std::size_t>(t.bytes()));
        t.memory = bytes.data();
      }
      return t;
    };
    if (const auto found = operations.find(o.type); found != operations.end())
      compute(o, of(found->second.x), of(found->second.w), of(found->second.y));
    else if (o.type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
      compute_statistics(of);
    else if (o.type == CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR)
      compute_norm_gradients(of);
    else
      compute_pointwise(o, of);
  }
}

/// Of an input gradient that is added to what is there: this is read, too.
inline std::size_t accumulated_bytes(const descriptor& graph) {
  const descriptor& o = graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const operation_attributes& n = operations.at(o.type);
  if (o.value<float>(n.beta) == 0) return 0;
  return static_cast<std::size_t>(tensor(o.part(n.x), nullptr).bytes());
}
inline bool is_fused(const descriptor& graph) {
  return graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS) > 1;
}
inline bool is_virtual(const descriptor& tensor_words) {
  return tensor_words.values.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
         tensor_words.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}
/// Of x in memory that is not for an input gradient: what windows below their stride do not cover.
inline std::size_t skipped_bytes(const descriptor& graph) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS); ++k) {
    const descriptor& o = graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS, k);
    const auto at = operations.find(o.type);
    if (at == operations.end() || is_virtual(o.part(at->second.x)) ||
        o.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
      continue;
    const tensor x(o.part(at->second.x), nullptr), w(o.part(at->second.w), nullptr);
    const auto stride = o.part(at->second.window).int64(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const std::int64_t side = std::min(w.dims[2], stride);  // of what is covered
    sum += x.bytes() - x.bytes() / (stride * stride) * (side * side);
  }
  return static_cast<std::size_t>(sum);
}
/// The descriptors of the tensors of a graph, by id.
inline std::map<std::int64_t, const descriptor*> tensors_of(const descriptor& graph) {
  std::map<std::int64_t, const descriptor*> out;
  for (std::size_t k = 0; k < graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS); ++k)
    for (const auto& [name, bytes] : graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS, k).values) {
      if (bytes.size() != sizeof(void*)) continue;
      const descriptor* d = nullptr;  // perhaps: other attributes are as long
      std::memcpy(&d, bytes.data(), sizeof(d));
      if (all_descriptors().contains(d) && d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        out[d->int64(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = d;
    }
  return out;
}

}  // namespace support::host
