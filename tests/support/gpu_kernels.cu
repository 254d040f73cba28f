// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the passes of ops/gpu.
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/histogram.hpp>

#include "tests/support/kernel_list.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

KERNEL(histogram, histogram_kernel)
KERNEL(batch_norm_chunk_moments_fp16, chunk_moments_kernel<cordee::half>)
KERNEL(batch_norm_normalize_relu_fp16, normalize_kernel<epilogue::relu, cordee::half, float>)
KERNEL(batch_norm_chunk_sums_relu_fp16, chunk_sums_kernel<epilogue::relu, cordee::half, float>)
KERNEL(batch_norm_input_gradient_relu_fp16,
       input_gradient_kernel<epilogue::relu, cordee::half, float>)
