// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel that engine tensor_core launches, and those of its other prologues and epilogues,
// for each tile.
// Covers: include/cordee/ops/engines/tensor_core
#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>

#include "tests/support/kernel_list.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {
using tile32 = tensor_core_tile<32, 4>;
using tile64 = tensor_core_tile<64, 2>;
using tile128 = tensor_core_tile<128, 2>;
template <class N>
using store_moments = moments_epilogue<store_epilogue<N>, float>;
using byte_moments = moments_epilogue<byte_sum_epilogue<float>, float>;
template <class N, class Tile, class Prologue = identity_prologue,
          class Epilogue = store_moments<N>>
using correlation = correlation_kernel<N, Tile, Prologue, Epilogue>;
template <class N, class Tile, class Prologue = identity_prologue,
          class Epilogue = store_moments<N>>
using one_tap = correlation_kernel<N, Tile, Prologue, Epilogue, true>;
template <class N, class Tile, bool OneTap, std::size_t Parts>
using dgrad = dgrad_kernel<N, Tile, store_epilogue<N>, float, OneTap, Parts>;
template <class Tile, bool OneTap, std::size_t Parts>
using byte_dgrad = dgrad_kernel<bfloat, Tile, straight_through_epilogue, float, OneTap, Parts>;
template <class N, class Tile, class Prologue = identity_prologue>
using wgrad = weight_gradient_kernel<N, Tile, Prologue>;
template <class N, class Tile>
using fused = correlation<N, Tile, scale_bias_relu_prologue<N>>;
template <class N, class Tile>
using bias_relu = correlation<N, Tile, identity_prologue, bias_relu_epilogue<N>>;
template <class N, class Tile>
using fused_wgrad = wgrad<N, Tile, scale_bias_relu_prologue<N>>;
template <class Tile, class Epilogue>
using byte_correlation = correlation<std::uint8_t, Tile, zero_point_prologue, Epilogue>;
}  // namespace

KERNEL(correlation_fp16_32, correlation<cordee::half, tile32>)
KERNEL(correlation_fp16_64, correlation<cordee::half, tile64>)
KERNEL(correlation_fp16_128, correlation<cordee::half, tile128>)
KERNEL(correlation_bf16_32, correlation<bfloat, tile32>)
KERNEL(correlation_bf16_64, correlation<bfloat, tile64>)
KERNEL(correlation_bf16_128, correlation<bfloat, tile128>)
KERNEL(correlation_1x1_fp16_32, one_tap<cordee::half, tile32>)
KERNEL(correlation_1x1_fp16_64, one_tap<cordee::half, tile64>)
KERNEL(correlation_1x1_fp16_128, one_tap<cordee::half, tile128>)
KERNEL(correlation_1x1_bf16_32, one_tap<bfloat, tile32>)
KERNEL(correlation_1x1_bf16_64, one_tap<bfloat, tile64>)
KERNEL(correlation_1x1_bf16_128, one_tap<bfloat, tile128>)
KERNEL(correlation_1x1_bytes_32, one_tap<std::uint8_t, tile32, zero_point_prologue, byte_moments>)
KERNEL(correlation_1x1_bytes_64, one_tap<std::uint8_t, tile64, zero_point_prologue, byte_moments>)
KERNEL(correlation_1x1_bytes_128, one_tap<std::uint8_t, tile128, zero_point_prologue, byte_moments>)
KERNEL(dgrad_fp16_32, dgrad<cordee::half, tile32, false, 1>)
KERNEL(dgrad_1x1_fp16_32, dgrad<cordee::half, tile32, true, 1>)
KERNEL(dgrad_strided_fp16_32, dgrad<cordee::half, tile32, false, 4>)
KERNEL(dgrad_fp16_64, dgrad<cordee::half, tile64, false, 1>)
KERNEL(dgrad_1x1_fp16_64, dgrad<cordee::half, tile64, true, 1>)
KERNEL(dgrad_strided_fp16_64, dgrad<cordee::half, tile64, false, 4>)
KERNEL(dgrad_fp16_128, dgrad<cordee::half, tile128, false, 1>)
KERNEL(dgrad_1x1_fp16_128, dgrad<cordee::half, tile128, true, 1>)
KERNEL(dgrad_strided_fp16_128, dgrad<cordee::half, tile128, false, 4>)
KERNEL(dgrad_bf16_32, dgrad<bfloat, tile32, false, 1>)
KERNEL(dgrad_1x1_bf16_32, dgrad<bfloat, tile32, true, 1>)
KERNEL(dgrad_strided_bf16_32, dgrad<bfloat, tile32, false, 4>)
KERNEL(dgrad_bf16_64, dgrad<bfloat, tile64, false, 1>)
KERNEL(dgrad_1x1_bf16_64, dgrad<bfloat, tile64, true, 1>)
KERNEL(dgrad_strided_bf16_64, dgrad<bfloat, tile64, false, 4>)
KERNEL(dgrad_bf16_128, dgrad<bfloat, tile128, false, 1>)
KERNEL(dgrad_1x1_bf16_128, dgrad<bfloat, tile128, true, 1>)
KERNEL(dgrad_strided_bf16_128, dgrad<bfloat, tile128, false, 4>)
KERNEL(dgrad_straight_through_32, byte_dgrad<tile32, false, 1>)
KERNEL(dgrad_1x1_straight_through_32, byte_dgrad<tile32, true, 1>)
KERNEL(dgrad_strided_straight_through_32, byte_dgrad<tile32, false, 4>)
KERNEL(dgrad_straight_through_64, byte_dgrad<tile64, false, 1>)
KERNEL(dgrad_1x1_straight_through_64, byte_dgrad<tile64, true, 1>)
KERNEL(dgrad_strided_straight_through_64, byte_dgrad<tile64, false, 4>)
KERNEL(dgrad_straight_through_128, byte_dgrad<tile128, false, 1>)
KERNEL(dgrad_1x1_straight_through_128, byte_dgrad<tile128, true, 1>)
KERNEL(dgrad_strided_straight_through_128, byte_dgrad<tile128, false, 4>)
KERNEL(wgrad_fp16_32, wgrad<cordee::half, tile32>)
KERNEL(wgrad_fp16_64, wgrad<cordee::half, tile64>)
KERNEL(wgrad_fp16_128, wgrad<cordee::half, tile128>)
KERNEL(wgrad_bf16_32, wgrad<bfloat, tile32>)
KERNEL(wgrad_bf16_64, wgrad<bfloat, tile64>)
KERNEL(wgrad_bf16_128, wgrad<bfloat, tile128>)
KERNEL(correlation_fused_fp16_32, fused<cordee::half, tile32>)
KERNEL(correlation_fused_fp16_64, fused<cordee::half, tile64>)
KERNEL(correlation_fused_fp16_128, fused<cordee::half, tile128>)
KERNEL(correlation_fused_bf16_32, fused<bfloat, tile32>)
KERNEL(correlation_fused_bf16_64, fused<bfloat, tile64>)
KERNEL(correlation_fused_bf16_128, fused<bfloat, tile128>)
KERNEL(correlation_bias_relu_fp16_32, bias_relu<cordee::half, tile32>)
KERNEL(correlation_bias_relu_fp16_64, bias_relu<cordee::half, tile64>)
KERNEL(correlation_bias_relu_fp16_128, bias_relu<cordee::half, tile128>)
KERNEL(correlation_bias_relu_bf16_32, bias_relu<bfloat, tile32>)
KERNEL(correlation_bias_relu_bf16_64, bias_relu<bfloat, tile64>)
KERNEL(correlation_bias_relu_bf16_128, bias_relu<bfloat, tile128>)
KERNEL(wgrad_fused_fp16_32, fused_wgrad<cordee::half, tile32>)
KERNEL(wgrad_fused_fp16_64, fused_wgrad<cordee::half, tile64>)
KERNEL(wgrad_fused_fp16_128, fused_wgrad<cordee::half, tile128>)
KERNEL(wgrad_fused_bf16_32, fused_wgrad<bfloat, tile32>)
KERNEL(wgrad_fused_bf16_64, fused_wgrad<bfloat, tile64>)
KERNEL(wgrad_fused_bf16_128, fused_wgrad<bfloat, tile128>)
KERNEL(correlation_bytes_32, byte_correlation<tile32, byte_moments>)
KERNEL(correlation_bytes_64, byte_correlation<tile64, byte_moments>)
KERNEL(correlation_bytes_128, byte_correlation<tile128, byte_moments>)
KERNEL(correlation_bytes_sums_32, byte_correlation<tile32, byte_sum_epilogue<std::int32_t>>)
KERNEL(correlation_bytes_sums_64, byte_correlation<tile64, byte_sum_epilogue<std::int32_t>>)
KERNEL(correlation_bytes_sums_128, byte_correlation<tile128, byte_sum_epilogue<std::int32_t>>)

KERNEL(pack_filters_bf16, pack_filters_kernel<float, bfloat>)
KERNEL(pack_filters_bytes, pack_filters_kernel<std::int8_t, std::int8_t>)
KERNEL(filter_sum, filter_sum_kernel)
OPERATION(quantize_bytes, quantize_op)
OPERATION(gradient_operands, gradient_operands_op)
KERNEL(unpack_filters, unpack_filters_kernel<float, float>)
