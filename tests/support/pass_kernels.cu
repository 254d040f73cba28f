// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the passes that gpu_kernels.cu does not have: of layers, reducers and the trainer.
// Covers: include/cordee/ops
// Covers: include/cordee/nn
// Covers: include/cordee/comm
// Covers: include/cordee/train
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/uphill.hpp>
#include <cordee/ops/dropout.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/encode.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/low_rank.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/ops/gpu/sign_codes.hpp>
#include <cordee/ops/gpu/votes.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/step/step_status.hpp>

#include "tests/support/kernel_list.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {
using encoded_max = chunk_max_kernel<magnitude_bits_op<float>, partial_max>;
template <class P>
using encoded_scaling = chunk_max_kernel<partial_max, fit_scaling_op<P>>;
}  // namespace

OPERATION(add_fp16, vectorized_op<cordee::half, add_op>)
OPERATION(relu_fp16, vectorized_op<cordee::half, relu_op>)
OPERATION(relu_backward_fp16, vectorized_op<cordee::half, relu_mask_op>)
OPERATION(scale_fp32, vectorized_op<float, scale_op<float>>)
OPERATION(scale_from_memory_fp32, vectorized_op<float, scale_from_memory_op<float>>)
OPERATION(normalize_bytes_fp16, normalize_bytes_op<cordee::half>)
OPERATION(convert_fp16, convert_op<float, cordee::half>)
OPERATION(set_zero, set_zero_op<float>)
OPERATION(dropout_fp16, dropout_op<cordee::half>)
OPERATION(copy_fp16, cordee::detail::nn::copy_op<cordee::half>)
OPERATION(subsample_fp16, subsample_op<cordee::half>)
OPERATION(subsample_backward_fp16, subsample_backward_op<cordee::half>)

OPERATION(batch_norm_running_statistics, running_statistics_op<float>)
OPERATION(batch_norm_evaluation_coefficients, evaluation_coefficients_op<float>)
OPERATION(batch_norm_parameter_gradient, parameter_gradient_op<float>)

KERNEL(scaled_by_size, segmented_kernel<float, cordee::detail::nn::scaled_by_size<float>>)
KERNEL(moved_uphill, segmented_kernel<float, cordee::detail::nn::moved_uphill<float>>)
OPERATION(climb_scale, cordee::detail::nn::climb_scale_op)

OPERATION(running_range, running_range_op)
OPERATION(update_ranges, detail::nn::update_ranges_op<float>)
OPERATION(fake_quantize, vectorized_op<float, fake_quantize_op>)
OPERATION(straight_through, vectorized_op<float, straight_through_op>)
OPERATION(add_straight_through, add_straight_through_op)
KERNEL(quantize_filter, quantize_filter_kernel<bfloat>)

KERNEL(project_rows, project_rows_kernel<float>)
OPERATION(project_cols, project_cols_op<float>)
OPERATION(add_outer_product, add_outer_product_op<float>)
KERNEL(orthonormalize, orthonormalize_kernel<float>)
KERNEL(draw_zero_columns, draw_zero_columns_kernel<float>)

OPERATION(take_residual, take_residual_op<float>)
KERNEL(sum_magnitudes, segment_squares_kernel<float, magnitude_op<float>, 1>)
KERNEL(encode_signs, encode_signs_kernel<float>)
KERNEL(decode_signs, decode_signs_kernel<float>)

OPERATION(vote_momentum, vote_momentum_op<float>)
OPERATION(begin_votes, begin_votes_op)
OPERATION(vote, vote_op<float>)
OPERATION(count_votes, count_votes_op)
OPERATION(voted_sign, voted_sign_op<float>)
KERNEL(clear_padding, clear_padding_kernel<float>)

KERNEL(encoded_max, encoded_max)
KERNEL(encoded_scaling_fp16, encoded_scaling<fp16>)
KERNEL(encoded_scaling_int8, encoded_scaling<int8>)
OPERATION(encode_fp16, encode_op<fp16, float>)
OPERATION(encode_bf16, encode_op<bf16, float>)
OPERATION(encode_int8, encode_op<int8, float>)
OPERATION(decode_fp16, decode_op<fp16, float>)
OPERATION(decode_bf16, decode_op<bf16, float>)
OPERATION(decode_int8, decode_op<int8, float>)
OPERATION(add_residual, detail::comm::add_residual_op<float>)
OPERATION(divide, divide_op<float>)
OPERATION(add_then_divide, add_then_divide_op<float>)
OPERATION(row_mean, row_mean_op<float>)
OPERATION(mix_neighbors, mix_neighbors_op<float>)

OPERATION(rescale_loss, detail::train::rescale_op)
OPERATION(replace, detail::train::replace_op<float>)
OPERATION(check_statistics, detail::train::check_statistics_op<float>)

KERNEL(reference_wgrad, reference_wgrad_kernel<float, float>)
OPERATION(reference_fprop, reference_fprop_op<float, float>)
OPERATION(reference_dgrad, reference_dgrad_op<float, float>)
OPERATION(reference_bytes, reference_bytes_op<float, float, const affine_quantizer<float>*>)
