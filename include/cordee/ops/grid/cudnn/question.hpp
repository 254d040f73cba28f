// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What an engine may be asked of cuDNN: one pass of one convolution layer, and how it is chosen.
//
//   fprop  y  = w * x        dgrad  dx = w' * dy  [+ dx]        wgrad  dw = x * dy
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include <cudnn_graph.h>

#include <cordee/core/text.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace cordee::inline CORDEE_ABI {

/// How engines are chosen: with `deterministic`, of those whose results' bits never change, the
/// heuristics' first; otherwise the quickest on first use, which may be another in the next run.
struct cudnn_settings {
  bool deterministic = false;
  bool tf32 = false;  // tensor cores for fp32, whose factors they round
};

namespace detail {

enum class convolution_pass { fprop, dgrad, wgrad };

template <class N>
inline constexpr auto cudnn_number = nullptr;  // cuDNN is not asked for convolutions of these
template <>
inline constexpr cudnnDataType_t cudnn_number<float> = CUDNN_DATA_FLOAT;
template <>
inline constexpr cudnnDataType_t cudnn_number<half> = CUDNN_DATA_HALF;
template <>
inline constexpr cudnnDataType_t cudnn_number<bfloat> = CUDNN_DATA_BFLOAT16;

template <class N>
concept CudnnNumber = requires {
  { cudnn_number<N> } -> std::convertible_to<cudnnDataType_t>;
};

/// A layer as it lies in memory, with channels and filters filled up to 16 bytes: what tensor cores
/// want, and what lets each load be a whole one.
template <CudnnNumber N>
constexpr int in_memory(int channels) {
  constexpr int v = 16 / static_cast<int>(sizeof(N));
  return (channels + v - 1) / v * v;
}
template <CudnnNumber N>
constexpr convolution_problem in_memory(convolution_problem p) {
  p.in.channels = in_memory<N>(p.in.channels);
  p.filters = in_memory<N>(p.filters);
  return p;
}

/// What is to be computed, and how. The plan for a question serves whoever asks it again.
struct cudnn_question {
  convolution_problem p;  // as it lies in memory
  int samples = 0;
  convolution_pass pass{};
  cudnnDataType_t number{};
  bool adds = false;  // to what is there, which only dgrad is asked to do
  cudnn_settings how{};
};

inline std::string_view to_text(convolution_pass pass) {
  constexpr std::array<std::string_view, 3> names{"fprop", "dgrad", "wgrad"};
  return names[static_cast<std::size_t>(pass)];
}
inline std::string_view to_text(cudnnDataType_t number) {
  return number == CUDNN_DATA_HALF ? "fp16" : number == CUDNN_DATA_BFLOAT16 ? "bf16" : "fp32";
}
/// "dgrad of 64x56x56 -> 128x28x28, window 3, stride 2, padding 1, 32 samples in fp16, added"
inline std::string to_text(const cudnn_question& q) {
  return text(to_text(q.pass), " of ", cordee::to_text(q.p.in), " -> ", cordee::to_text(q.p.out()),
              ", window ", q.p.window, ", stride ", q.p.stride, ", padding ", q.p.padding, ", ",
              q.samples, " samples in ", to_text(q.number), q.adds ? ", added" : "");
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
