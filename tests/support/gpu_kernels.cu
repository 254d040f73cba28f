// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the passes of ops/gpu.
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/fused_batch_norm.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/paired_columns.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>

#include "tests/support/kernel_list.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

KERNEL(histogram, histogram_kernel)
KERNEL(add_counts, add_counts_kernel)
KERNEL(batch_norm_chunk_moments_fp16, chunk_moments_kernel<cordee::half, 8, float>)
KERNEL(batch_norm_normalize_relu_fp16, normalize_kernel<epilogue::relu, cordee::half, 8, float>)
KERNEL(batch_norm_chunk_sums_relu_fp16, chunk_sums_kernel<epilogue::relu, cordee::half, 8, float>)
KERNEL(batch_norm_input_gradient_relu_fp16,
       input_gradient_kernel<epilogue::relu, cordee::half, 8, float>)
KERNEL(batch_norm_summed_gradient_fp16, summed_gradient_kernel<cordee::half, 8, float>)
KERNEL(batch_norm_dual_summed_gradient_fp16, dual_summed_gradient_kernel<cordee::half, 8, float>)
OPERATION(batch_norm_summed_moments_fp16, summed_moments_op<cordee::half, float>)
OPERATION(batch_norm_round_coefficients_fp16, round_coefficients_op<cordee::half, float>)
OPERATION(batch_norm_no_sums, no_sums_op)
OPERATION(batch_norm_own_deviation, own_deviation_op)
OPERATION(batch_norm_shared_moments, shared_moments_op<float>)
OPERATION(batch_norm_shared_sums, shared_sums_op<float>)
KERNEL(average_pool_fp16, average_pool_kernel<cordee::half, 8>)
KERNEL(average_pool_backward_fp16, average_pool_backward_kernel<cordee::half, 8>)
OPERATION(max_pool_fp16, max_pool_op<cordee::half, 8>)
OPERATION(max_pool_backward_fp16, max_pool_backward_op<cordee::half, 8>)
OPERATION(normalized_max_pool_fp16, normalized_max_pool_op<cordee::half, 8, float>)
OPERATION(normalized_max_pool_backward_fp16,
          normalized_max_pool_backward_op<cordee::half, 8, float>)
OPERATION(normalized_max_pool_coefficients, coefficients_of_sums_op<float>)
KERNEL(normalized_average_pool_fp16, normalized_average_pool_kernel<cordee::half, 8, float>)
KERNEL(normalized_average_pool_sums_fp16, pooled_sums_kernel<cordee::half, 8, float>)
KERNEL(normalized_average_pool_backward_fp16,
       pooled_input_gradient_kernel<cordee::half, 8, float>)
OPERATION(normalize_pairs_fp16, normalize_pairs_op<cordee::half>)
OPERATION(widen_windows_fp16, widen_windows_op<cordee::half>)
OPERATION(narrow_windows_fp16, narrow_windows_op<cordee::half>)
KERNEL(pack_table_fp16, pack_table_kernel<cordee::half, float>)
KERNEL(pack_numbers_fp16, pack_numbers_kernel<cordee::half, float>)
KERNEL(unpack_table_fp16, unpack_table_kernel<cordee::half, float>)
KERNEL(pack_table_int8, pack_table_kernel<float, float, bfloat>)
KERNEL(quantize_table, quantize_table_kernel)
OPERATION(add_bias_fp16, add_bias_op<cordee::half, float>)
KERNEL(linear_bias_gradient_fp16,
       matmul_kernel<cordee::half, store_weight_gradient_op<cordee::half, float>>)
KERNEL(loss_fp16, loss_kernel<cordee::half, cross_entropy>)
KERNEL(metrics, metrics_kernel)
KERNEL(quantize_input, quantize_input_kernel)
KERNEL(normalize_quantizing, normalize_quantizing_kernel<epilogue::relu, float>)
KERNEL(normalize_quantizing_add, normalize_quantizing_kernel<epilogue::add_relu, float>)
KERNEL(gradient_operands_of_batch_norm, gradient_operands_kernel<epilogue::relu, float>)
