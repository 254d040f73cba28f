// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel that a network on integers launches on a GPU between images and logits;
// tests/infer/integer_network_on.cpp includes this list, to compare.
// Covers: include/cordee/infer
// Integers only
#include <cordee/infer/gpu/layers.hpp>
#include <cordee/infer/gpu/requantize_epilogue.hpp>
#include <cordee/ops/engines/tensor_core/bytes.hpp>
#include <cordee/ops/engines/tensor_core/correlation.hpp>

#if !defined(KERNEL)
#include "tests/support/kernel_list.cuh"
#endif

using namespace cordee;
using namespace cordee::detail::infer;
using namespace cordee::detail::ops;

namespace {
using to_bytes = std::uint8_t;
using to_wide = std::int32_t;
using tile32 = tensor_core_tile<32, 4>;
using tile64 = tensor_core_tile<64, 2>;
using tile128 = tensor_core_tile<128, 2>;
template <class Out, class Tile, bool OneTap = false>
using convolution_of =
    correlation_kernel<std::uint8_t, Tile, byte_padding_prologue, requantize_epilogue<Out>, OneTap>;
}  // namespace

KERNEL(integer_convolution_bytes_32, convolution_of<to_bytes, tile32>)
KERNEL(integer_convolution_bytes_64, convolution_of<to_bytes, tile64>)
KERNEL(integer_convolution_bytes_128, convolution_of<to_bytes, tile128>)
KERNEL(integer_convolution_wide_32, convolution_of<to_wide, tile32>)
KERNEL(integer_convolution_wide_64, convolution_of<to_wide, tile64>)
KERNEL(integer_convolution_wide_128, convolution_of<to_wide, tile128>)
KERNEL(integer_convolution_1x1_bytes_32, convolution_of<to_bytes, tile32, true>)
KERNEL(integer_convolution_1x1_bytes_64, convolution_of<to_bytes, tile64, true>)
KERNEL(integer_convolution_1x1_bytes_128, convolution_of<to_bytes, tile128, true>)
KERNEL(integer_convolution_1x1_wide_32, convolution_of<to_wide, tile32, true>)
KERNEL(integer_convolution_1x1_wide_64, convolution_of<to_wide, tile64, true>)
KERNEL(integer_convolution_1x1_wide_128, convolution_of<to_wide, tile128, true>)
OPERATION(integer_read_image, read_image_op)
OPERATION(integer_to_bytes, to_bytes_op)
OPERATION(integer_batch_norm_bytes, integer_batch_norm_op<to_bytes>)
OPERATION(integer_batch_norm_wide, integer_batch_norm_op<to_wide>)
OPERATION(integer_max_pool_bytes, integer_max_pool_op<to_bytes>)
OPERATION(integer_max_pool_wide, integer_max_pool_op<to_wide>)
OPERATION(integer_subsample, integer_subsample_op)
OPERATION(integer_mean, integer_mean_op)
KERNEL(integer_classifier, integer_classifier_kernel)
