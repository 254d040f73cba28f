// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The key of an execution plan: one pass of one convolution layer, its data type and the settings
// by which its engine is selected.
//
//   fprop  y  = w * x
//   dgrad  dx = w' * dy  [+ dx]
//   wgrad  dw = x * dy
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include <cudnn_graph.h>

#include <cordee/core/concat.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace cordee::inline CORDEE_ABI {

/// How cuDNN's engines are selected, a template argument.
struct cudnn_settings {
  /// Whether the heuristics' first engine with reproducible bits is used; else the fastest, as
  /// measured on first use, which may differ between runs.
  bool deterministic = false;
  /// Whether fp32 is multiplied on tensor cores, with inputs rounded to 11 bits.
  bool tf32 = false;
  /// Whether convolutions in fp16 may take statistics for the batch norm behind them and normalize
  /// for the one before them, each where it is faster (fused_places.hpp). Off by default: no GPU
  /// has run it in training yet.
  bool fuse_batch_norm = false;
};

namespace detail::ops {

enum class convolution_pass { fprop, dgrad, wgrad };

template <class N>
inline constexpr auto cudnn_data_type = nullptr;
template <>
inline constexpr cudnnDataType_t cudnn_data_type<float> = CUDNN_DATA_FLOAT;
template <>
inline constexpr cudnnDataType_t cudnn_data_type<half> = CUDNN_DATA_HALF;
template <>
inline constexpr cudnnDataType_t cudnn_data_type<bfloat> = CUDNN_DATA_BFLOAT16;

template <class N>
concept CudnnType = requires {
  { cudnn_data_type<N> } -> std::convertible_to<cudnnDataType_t>;
};

/// Channels, and a problem's channels and filters, padded to multiples of 16 bytes as in memory:
/// the alignment that tensor-core engines require.
template <CudnnType N>
constexpr int padded_channels(int channels) {
  constexpr int v = 16 / static_cast<int>(sizeof(N));
  return (channels + v - 1) / v * v;
}
template <CudnnType N>
constexpr convolution_problem padded_problem(convolution_problem p) {
  p.in.channels = padded_channels<N>(p.in.channels);
  p.filters = padded_channels<N>(p.filters);
  return p;
}

struct cudnn_plan_key {
  convolution_problem p;  // padded
  int samples = 0;
  convolution_pass pass{};
  cudnnDataType_t data_type{};
  bool accumulate = false;  // add to the output: dgrad only
  cudnn_settings settings{};
};

inline std::string_view describe(convolution_pass pass) {
  constexpr std::array<std::string_view, 3> names{"fprop", "dgrad", "wgrad"};
  return names[static_cast<std::size_t>(pass)];
}
inline std::string_view describe(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF ? "fp16" : type == CUDNN_DATA_BFLOAT16 ? "bf16" : "fp32";
}
/// "dgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 32 samples in fp16, accumulated"
inline std::string describe(const cudnn_plan_key& key) {
  const convolution_problem& p = key.p;
  return concat(describe(key.pass), " of ", cordee::describe(p.in), " -> ",
                cordee::describe(p.out()), ", window ", p.window, ", stride ", p.stride,
                ", padding ", p.padding, p.margin > 0 ? ", by pairs of columns, " : ", ",
                key.samples, " samples in ", describe(key.data_type),
                key.accumulate ? ", accumulated" : "");
}

}  // namespace detail::ops
}  // namespace cordee::inline CORDEE_ABI
