// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution of bytes on tensor cores (ops/convolution_bytes.hpp), exact in 32 bits:
//
//   sum over c, r, s of  w (q - z)  =  sum of w q  -  z sum of w,   with q = z in the padding
//
// so the packed weights end with each filter's sum. Gradients are bf16 products, accumulated in
// float, of the dequantized activations and weights.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <cordee/ops/convolution_bytes.hpp>
#include <cordee/ops/engines/tensor_core/mma_type.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct quantize_op {
  const float* x;  // (N, H, W, C')
  const affine_quantizer<float>* scaling;
  std::uint8_t* q;  // (N, H, W, C')
  CORDEE_DEVICE void operator()(std::size_t i) const {
    q[i] = static_cast<std::uint8_t>(scaling->quantize(x[i]));
  }
};
/// The operands of the gradients in bf16, by one launch for both: the dequantized x and dy.
struct gradient_operands_op {
  const float* x;  // (N, H, W, C')
  const affine_quantizer<float>* scaling;
  bfloat* dequantized;  // (N, H, W, C')
  std::size_t inputs;
  const float* dy;    // (N, H_out, W_out, K')
  bfloat* narrow_dy;  // (N, H_out, W_out, K')
  CORDEE_DEVICE void operator()(std::size_t i) const {
    if (i < inputs)
      dequantized[i] = precision::rounded<bfloat>(scaling->fake_quantize(x[i]));
    else
      narrow_dy[i - inputs] = precision::rounded<bfloat>(dy[i - inputs]);
  }
};

/// Prologue: the padding around an image is this byte.
struct byte_padding_prologue {
  static constexpr bool has_transform = false, pads_with_zeros = false;
  int byte;

  template <class Block>
  CORDEE_DEVICE void copy(Block& b, std::byte* to, const void* from, bool valid) const {
    if (valid) return b.copy_async(to, from, true);
    const std::uint32_t four = static_cast<std::uint32_t>(byte) * 0x01010101u;
    const std::uint32_t unit[4] = {four, four, four, four};
    store_unit(unit, reinterpret_cast<std::uint32_t*>(to));
  }
};
/// Prologue: the padding is the zero point of a quantizer in the GPU's memory.
struct zero_point_prologue {
  static constexpr bool has_transform = false, pads_with_zeros = false;
  const affine_quantizer<float>* scaling;

  template <class Block>
  CORDEE_DEVICE void copy(Block& b, std::byte* to, const void* from, bool valid) const {
    if (valid) return b.copy_async(to, from, true);
    byte_padding_prologue{scaling->zero_point}.copy(b, to, from, false);
  }
};

/// Epilogue: subtracts the zero point's part of the sums and, for Out float, dequantizes.
template <ByteConvolutionOutput Out>
struct byte_sum_epilogue {
  using number = Out;
  static constexpr int width = 16 / static_cast<int>(sizeof(Out));
  Out* y;                                  // (N, H_out, W_out, K')
  const std::int32_t* filter_sums;         // (K'), aligned to 16 bytes
  const affine_quantizer<float>* scaling;  // of the activations
  const float* scales;                     // (K), of the weights, aligned to 16 bytes
  int filters;                             // K

  CORDEE_DEVICE void store(std::size_t offset, int filter, const std::int32_t* sums) const {
    Out out[std::size_t{width}];
    compute(filter, sums, out);
    store_unit(out, y + offset);
  }
  CORDEE_DEVICE vec_16b<float> result(std::size_t, int filter, const std::int32_t* sums) const
    requires std::same_as<Out, float>
  {
    vec_16b<float> out;
    compute(filter, sums, out.value);
    return out;
  }

 private:
  CORDEE_DEVICE void compute(int filter, const std::int32_t* sums,
                             Out (&out)[std::size_t{width}]) const {
    std::int32_t of_filter[std::size_t{width}];
    load_unit(filter_sums + filter, of_filter);
    const std::int32_t zero = scaling->zero_point;
    for (int i = 0; i < width; ++i) out[i] = static_cast<Out>(sums[i] - zero * of_filter[i]);
    if constexpr (std::same_as<Out, float>) {
      const int count = std::clamp(filters - filter, 0, int{width});  // the rest is padding
      const vec_16b<float> scale(scales + filter, count);
      for (int i = 0; i < width; ++i)
        out[i] = i < count ? scaling->scale * scale.value[i] * out[i] : 0.0f;
    }
  }
};

/// Epilogue of the straight-through estimator: dx <- sum where x is in the quantization range, 0
/// elsewhere; or adds that to dx.
struct straight_through_epilogue {
  static constexpr int width = vec_16b<float>::size;
  const float* x;  // (N, H, W, C')
  const affine_quantizer<float>* scaling;
  float* dx;  // (N, H, W, C')
  write_mode mode;

  CORDEE_DEVICE void store(std::size_t offset, int /*filter*/, const float* sums) const {
    const vec_16b<float> in(x + offset, width);
    vec_16b<float> out;
    if (mode == write_mode::add) out = vec_16b<float>(dx + offset, width);
    for (int i = 0; i < width; ++i) out.value[i] += scaling->in_range(in.value[i]) ? sums[i] : 0;
    out.store(dx + offset, width);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
