// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The umbrella of the component cuda: a GPU as a device, and the GPU overloads of every operation
// that layers, optimizers and reducers call. cordee.hpp includes it in translation units that nvcc
// compiles.
#pragma once

#include <cordee/device/cuda.cuh>
#include <cordee/device/cuda_kernel.cuh>
#include <cordee/device/cuda_memory.hpp>
#include <cordee/device/cuda_stream_pool.hpp>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/batch_norm_kernels.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_ranks.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>
#include <cordee/ops/gpu/block_max.hpp>
#include <cordee/ops/gpu/blocked_layout.hpp>
#include <cordee/ops/gpu/chunk_merge.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/encode.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/fused_batch_norm.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/low_rank.hpp>
#include <cordee/ops/gpu/moments_message.hpp>
#include <cordee/ops/gpu/newton_schulz.hpp>
#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/paired_columns.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_input.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/ops/gpu/sign_codes.hpp>
#include <cordee/ops/gpu/strided_lanes.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>
#include <cordee/ops/gpu/votes.hpp>

#if defined(CORDEE_HAS_CUDNN)
#include <cordee/ops/engines/cudnn/engine.hpp>
#endif
