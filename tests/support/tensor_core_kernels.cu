// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel that engine tensor_core launches, and those of its other prologues and epilogues,
// for each tile, with its registers per thread and its bytes of shared memory per block on sm_90 as
// compiled by nvcc 13.0. cmake/resources.cmake compiles this file: more registers, or stack memory,
// is an error, and another amount of shared memory does not compile.
#include <cordee/device/cuda.cuh>
#include <cordee/ops/engines/tensor_core/engine.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {
using tile32 = tensor_core_tile<32, 4>;
using tile64 = tensor_core_tile<64, 2>;
using tile128 = tensor_core_tile<128, 2>;
template <class N, class Tile, class Prologue = identity_prologue,
          class Epilogue = store_epilogue<N>>
using correlation = correlation_kernel<N, Tile, Prologue, Epilogue>;
template <class N, class Tile, class Prologue = identity_prologue>
using wgrad = weight_gradient_kernel<N, Tile, Prologue>;
template <class N, class Tile>
using fused = correlation<N, Tile, scale_bias_relu_prologue<N>, statistics_epilogue<N>>;
template <class N, class Tile>
using bias_relu = correlation<N, Tile, identity_prologue, bias_relu_epilogue<N>>;
template <class N, class Tile>
using fused_wgrad = wgrad<N, Tile, scale_bias_relu_prologue<N>>;
template <class Tile, class Out>
using byte_correlation =
    correlation<std::uint8_t, Tile, zero_point_prologue, byte_sum_epilogue<Out>>;
template <class Tile>
using straight_through = correlation<bfloat, Tile, identity_prologue, straight_through_epilogue>;
}  // namespace

#define KERNEL(name, registers, bytes, ...)                                \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__::threads)       \
      name(const __grid_constant__ __VA_ARGS__ kernel) {                   \
    static_assert(__VA_ARGS__::shared_bytes() == bytes,                    \
                  #name " uses another amount of shared memory");          \
    cordee::detail::device::cuda_thread_block<__VA_ARGS__::threads> block; \
    kernel(block);                                                         \
  }

KERNEL(correlation_fp16_32, 94, 38400, correlation<cordee::half, tile32>)
KERNEL(correlation_fp16_64, 124, 46080, correlation<cordee::half, tile64>)
KERNEL(correlation_fp16_128, 122, 67584, correlation<cordee::half, tile128>)
KERNEL(correlation_bf16_32, 94, 38400, correlation<bfloat, tile32>)
KERNEL(correlation_bf16_64, 124, 46080, correlation<bfloat, tile64>)
KERNEL(correlation_bf16_128, 122, 67584, correlation<bfloat, tile128>)
KERNEL(wgrad_fp16_32, 90, 33792, wgrad<cordee::half, tile32>)
KERNEL(wgrad_fp16_64, 124, 39936, wgrad<cordee::half, tile64>)
KERNEL(wgrad_fp16_128, 120, 52224, wgrad<cordee::half, tile128>)
KERNEL(wgrad_bf16_32, 90, 33792, wgrad<bfloat, tile32>)
KERNEL(wgrad_bf16_64, 124, 39936, wgrad<bfloat, tile64>)
KERNEL(wgrad_bf16_128, 120, 52224, wgrad<bfloat, tile128>)
KERNEL(correlation_fused_fp16_32, 94, 38400, fused<cordee::half, tile32>)
KERNEL(correlation_fused_fp16_64, 144, 46080, fused<cordee::half, tile64>)
KERNEL(correlation_fused_fp16_128, 127, 67584, fused<cordee::half, tile128>)
KERNEL(correlation_fused_bf16_32, 96, 38400, fused<bfloat, tile32>)
KERNEL(correlation_fused_bf16_64, 144, 46080, fused<bfloat, tile64>)
KERNEL(correlation_fused_bf16_128, 127, 67584, fused<bfloat, tile128>)
KERNEL(correlation_bias_relu_fp16_32, 94, 38400, bias_relu<cordee::half, tile32>)
KERNEL(correlation_bias_relu_fp16_64, 124, 46080, bias_relu<cordee::half, tile64>)
KERNEL(correlation_bias_relu_fp16_128, 122, 67584, bias_relu<cordee::half, tile128>)
KERNEL(correlation_bias_relu_bf16_32, 94, 38400, bias_relu<bfloat, tile32>)
KERNEL(correlation_bias_relu_bf16_64, 124, 46080, bias_relu<bfloat, tile64>)
KERNEL(correlation_bias_relu_bf16_128, 122, 67584, bias_relu<bfloat, tile128>)
KERNEL(wgrad_fused_fp16_32, 96, 33792, fused_wgrad<cordee::half, tile32>)
KERNEL(wgrad_fused_fp16_64, 127, 39936, fused_wgrad<cordee::half, tile64>)
KERNEL(wgrad_fused_fp16_128, 128, 52224, fused_wgrad<cordee::half, tile128>)
KERNEL(wgrad_fused_bf16_32, 96, 33792, fused_wgrad<bfloat, tile32>)
KERNEL(wgrad_fused_bf16_64, 127, 39936, fused_wgrad<bfloat, tile64>)
KERNEL(wgrad_fused_bf16_128, 128, 52224, fused_wgrad<bfloat, tile128>)
KERNEL(correlation_bytes_32, 94, 38400, byte_correlation<tile32, float>)
KERNEL(correlation_bytes_64, 128, 46080, byte_correlation<tile64, float>)
KERNEL(correlation_bytes_128, 120, 67584, byte_correlation<tile128, float>)
KERNEL(correlation_bytes_sums_32, 94, 38400, byte_correlation<tile32, std::int32_t>)
KERNEL(correlation_bytes_sums_64, 128, 46080, byte_correlation<tile64, std::int32_t>)
KERNEL(correlation_bytes_sums_128, 120, 67584, byte_correlation<tile128, std::int32_t>)
KERNEL(correlation_straight_through_32, 94, 38400, straight_through<tile32>)
KERNEL(correlation_straight_through_64, 124, 46080, straight_through<tile64>)
KERNEL(correlation_straight_through_128, 120, 67584, straight_through<tile128>)
