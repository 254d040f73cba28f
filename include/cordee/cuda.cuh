// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The component cuda: a GPU as a device, and every kernel that layers, rules and reducers ask of
// one. cordee.hpp includes it where a program of the component is compiled as CUDA.
#pragma once

#include <cordee/device/cuda.cuh>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/ops/grid/batch_norm.hpp>
#include <cordee/ops/grid/batch_norm_merge.hpp>
#include <cordee/ops/grid/batch_norm_ranks.hpp>
#include <cordee/ops/grid/batch_norm_tiles.hpp>
#include <cordee/ops/grid/blocked.hpp>
#include <cordee/ops/grid/convolution_reference.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/encode.hpp>
#include <cordee/ops/grid/exchange.hpp>
#include <cordee/ops/grid/histogram.hpp>
#include <cordee/ops/grid/largest.hpp>
#include <cordee/ops/grid/linear.hpp>
#include <cordee/ops/grid/pack.hpp>
#include <cordee/ops/grid/packing.hpp>
#include <cordee/ops/grid/pooling.hpp>
#include <cordee/ops/grid/quantise.hpp>
#include <cordee/ops/grid/segmented.hpp>
#include <cordee/ops/grid/softmax_loss.hpp>
#include <cordee/ops/grid/wmma/convolution.hpp>

namespace cordee::inline CORDEE_ABI {
/// Bytes go through tensor cores.
template <Quantised P>
struct engine_for<cuda, P> {
  using type = wmma;
};
#if !defined(CORDEE_HAS_CUDNN)
/// So do fp16 and bf16 where nobody else brings them there.
template <class P>
  requires detail::WmmaNumber<typename P::storage>
struct engine_for<cuda, P> {
  using type = wmma;
};
#endif
}  // namespace cordee::inline CORDEE_ABI

// Where the build found cuDNN it is the engine of networks that name none; elsewhere `reference`
// remains for fp32.
#if defined(CORDEE_HAS_CUDNN)
#include <cordee/ops/grid/cudnn/convolution.hpp>
namespace cordee::inline CORDEE_ABI {
template <>
struct usual_engine<cuda> {
  using type = cudnn;
};
}  // namespace cordee::inline CORDEE_ABI
#endif
