// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of layers in all types of activations that trainers have, and for all epilogues that
// residual networks have: of fp16 those that gpu_kernels.cu leaves out; and those of muon.
#include <cordee/nn/cross_entropy.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/newton_schulz.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/train/muon/muon.hpp>

#include "tests/support/kernel_list.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

#define EPILOGUE(epilogue_name, type_name, N, V)                 \
  KERNEL(batch_norm_normalize_##epilogue_name##_##type_name,     \
         normalize_kernel<epilogue::epilogue_name, N, V, float>) \
  KERNEL(batch_norm_chunk_sums_##epilogue_name##_##type_name,    \
         chunk_sums_kernel<epilogue::epilogue_name, N, V, float>)
// Of add_relu's gradient the addition is a pass of its own.
#define INPUT_GRADIENT(epilogue_name, type_name, N, V)            \
  KERNEL(batch_norm_input_gradient_##epilogue_name##_##type_name, \
         input_gradient_kernel<epilogue::epilogue_name, N, V, float>)
#define LAYERS(type_name, N, V)                                                   \
  EPILOGUE(relu, type_name, N, V)                                                 \
  INPUT_GRADIENT(relu, type_name, N, V)                                           \
  KERNEL(batch_norm_chunk_moments_##type_name, chunk_moments_kernel<N, V, float>) \
  KERNEL(average_pool_##type_name, average_pool_kernel<N, V>)                     \
  KERNEL(average_pool_backward_##type_name, average_pool_backward_kernel<N, V>)   \
  OPERATION(max_pool_##type_name, max_pool_op<N, V>)                              \
  OPERATION(max_pool_backward_##type_name, max_pool_backward_op<N, V>)            \
  KERNEL(loss_##type_name, loss_kernel<N, cross_entropy>)                         \
  OPERATION(add_##type_name, vectorized_op<N, add_op>)                            \
  OPERATION(normalize_bytes_##type_name, normalize_bytes_op<N>)                   \
  OPERATION(subsample_##type_name, subsample_op<N>)                               \
  OPERATION(subsample_backward_##type_name, subsample_backward_op<N>)

EPILOGUE(store, fp16, cordee::half, 8)
INPUT_GRADIENT(store, fp16, cordee::half, 8)
EPILOGUE(add_relu, fp16, cordee::half, 8)

LAYERS(fp32, float, 4)
EPILOGUE(store, fp32, float, 4)
INPUT_GRADIENT(store, fp32, float, 4)
EPILOGUE(add_relu, fp32, float, 4)
KERNEL(linear_forward_fp32, matmul_kernel<float, store_output_op<float, float>>)
KERNEL(linear_input_gradient_fp32, matmul_kernel<float, store_input_gradient_op<float>>)
KERNEL(linear_weight_gradient_fp32, matmul_kernel<float, store_weight_gradient_op<float, float>>)
KERNEL(newton_schulz_product, matmul_kernel<float, store_product_op<float>>)
KERNEL(newton_schulz_polynomial, matmul_kernel<float, store_polynomial_op<float>>)
OPERATION(newton_schulz_normalize, normalize_op<float>)
KERNEL(muon_momentum, segmented_kernel<float, cordee::detail::train::muon_momentum<float>>)
KERNEL(muon_step, segmented_kernel<float, cordee::detail::train::muon_step<float>>)
KERNEL(gradient_operands_of_batch_norm_store, gradient_operands_kernel<epilogue::store, float>)

LAYERS(bf16, bfloat, 8)
EPILOGUE(store, bf16, bfloat, 8)
INPUT_GRADIENT(store, bf16, bfloat, 8)
EPILOGUE(add_relu, bf16, bfloat, 8)
OPERATION(add_bias_bf16, add_bias_op<bfloat, float>)
KERNEL(linear_bias_gradient_bf16, matmul_kernel<bfloat, store_weight_gradient_op<bfloat, float>>)
KERNEL(pack_table_bf16, pack_table_kernel<bfloat, float>)
KERNEL(pack_numbers_bf16, pack_numbers_kernel<bfloat, float>)
