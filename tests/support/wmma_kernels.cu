// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel that engine wmma launches, and those that prologues and epilogues make, in each
// tile, with the registers a thread and the bytes of shared memory a block that it takes on
// sm_90 as nvcc 13.0 makes it. cmake/resources.cmake compiles this and compares:
// more registers, or any on a stack, is an error, and so is other shared memory here.
#include <cordee/device/cuda.cuh>
#include <cordee/ops/grid/wmma/convolution.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {
using narrow = wmma_tile<32, 4>;
using middle = wmma_tile<64, 2>;
using broad = wmma_tile<128, 2>;
template <class N, class Tile, class Before = as_it_is, class After = stored<N>>
using sweeps = correlation_body<N, Tile, Before, After>;
template <class N, class Tile, class Before = as_it_is>
using weighs = weight_gradient_body<N, Tile, Before>;
template <class N, class Tile>
using scaled_counted = sweeps<N, Tile, scale_bias_relu<N>, stored_with_sums<N>>;
template <class N, class Tile>
using biased = sweeps<N, Tile, as_it_is, bias_relu<N>>;
template <class N, class Tile>
using weighs_scaled = weighs<N, Tile, scale_bias_relu<N>>;
template <class Tile, class Out>
using of_bytes = sweeps<std::uint8_t, Tile, zero_point_outside, sunk<Out>>;
}  // namespace

#define KERNEL(name, registers, bytes, ...)                                                  \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__::threads)                         \
      name(const __grid_constant__ __VA_ARGS__ body) {                                       \
    static_assert(__VA_ARGS__::shared_bytes() == bytes, #name " takes other shared memory"); \
    cuda_block<__VA_ARGS__::threads> block;                                                  \
    body(block);                                                                             \
  }

KERNEL(sweep_fp16_32, 94, 38400, sweeps<cordee::half, narrow>)
KERNEL(sweep_fp16_64, 124, 46080, sweeps<cordee::half, middle>)
KERNEL(sweep_fp16_128, 122, 67584, sweeps<cordee::half, broad>)
KERNEL(sweep_bf16_32, 94, 38400, sweeps<bfloat, narrow>)
KERNEL(sweep_bf16_64, 124, 46080, sweeps<bfloat, middle>)
KERNEL(sweep_bf16_128, 122, 67584, sweeps<bfloat, broad>)
KERNEL(weigh_fp16_32, 90, 33792, weighs<cordee::half, narrow>)
KERNEL(weigh_fp16_64, 124, 39936, weighs<cordee::half, middle>)
KERNEL(weigh_fp16_128, 120, 52224, weighs<cordee::half, broad>)
KERNEL(weigh_bf16_32, 90, 33792, weighs<bfloat, narrow>)
KERNEL(weigh_bf16_64, 124, 39936, weighs<bfloat, middle>)
KERNEL(weigh_bf16_128, 120, 52224, weighs<bfloat, broad>)
KERNEL(sweep_scaled_counted_fp16_32, 94, 38400, scaled_counted<cordee::half, narrow>)
KERNEL(sweep_scaled_counted_fp16_64, 144, 46080, scaled_counted<cordee::half, middle>)
KERNEL(sweep_scaled_counted_fp16_128, 127, 67584, scaled_counted<cordee::half, broad>)
KERNEL(sweep_scaled_counted_bf16_32, 96, 38400, scaled_counted<bfloat, narrow>)
KERNEL(sweep_scaled_counted_bf16_64, 144, 46080, scaled_counted<bfloat, middle>)
KERNEL(sweep_scaled_counted_bf16_128, 127, 67584, scaled_counted<bfloat, broad>)
KERNEL(sweep_biased_fp16_32, 94, 38400, biased<cordee::half, narrow>)
KERNEL(sweep_biased_fp16_64, 124, 46080, biased<cordee::half, middle>)
KERNEL(sweep_biased_fp16_128, 122, 67584, biased<cordee::half, broad>)
KERNEL(sweep_biased_bf16_32, 94, 38400, biased<bfloat, narrow>)
KERNEL(sweep_biased_bf16_64, 124, 46080, biased<bfloat, middle>)
KERNEL(sweep_biased_bf16_128, 122, 67584, biased<bfloat, broad>)
KERNEL(weigh_scaled_fp16_32, 96, 33792, weighs_scaled<cordee::half, narrow>)
KERNEL(weigh_scaled_fp16_64, 127, 39936, weighs_scaled<cordee::half, middle>)
KERNEL(weigh_scaled_fp16_128, 128, 52224, weighs_scaled<cordee::half, broad>)
KERNEL(weigh_scaled_bf16_32, 96, 33792, weighs_scaled<bfloat, narrow>)
KERNEL(weigh_scaled_bf16_64, 127, 39936, weighs_scaled<bfloat, middle>)
KERNEL(weigh_scaled_bf16_128, 128, 52224, weighs_scaled<bfloat, broad>)
KERNEL(sweep_bytes_32, 94, 38400, of_bytes<narrow, float>)
KERNEL(sweep_bytes_64, 128, 46080, of_bytes<middle, float>)
KERNEL(sweep_bytes_128, 120, 67584, of_bytes<broad, float>)
KERNEL(sweep_bytes_sums_32, 94, 38400, of_bytes<narrow, std::int32_t>)
KERNEL(sweep_bytes_sums_64, 128, 46080, of_bytes<middle, std::int32_t>)
KERNEL(sweep_bytes_sums_128, 120, 67584, of_bytes<broad, std::int32_t>)
KERNEL(sweep_straight_32, 94, 38400, sweeps<bfloat, narrow, as_it_is, passed_straight>)
KERNEL(sweep_straight_64, 124, 46080, sweeps<bfloat, middle, as_it_is, passed_straight>)
KERNEL(sweep_straight_128, 120, 67584, sweeps<bfloat, broad, as_it_is, passed_straight>)
