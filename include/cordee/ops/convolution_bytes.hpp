// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Forward convolutions of 8-bit integers, accumulated in 32 bits.
//
//   sum[k, i, j] = sum over c, r, s of  w[k, c, r, s] (q[c, i t + r - p, j t + s - p] - z)
//   q = clip(round(x / s_x) + z, 0, 255),   y = sum   or   y = (s_x s_w[k]) sum
//
// Integer sums do not depend on their order, so every engine computes the same bits. Padding is the
// zero point and adds nothing. Sums of at most 66,000 terms fit 32 bits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The input of a byte convolution: bytes, or floats that it quantises as it reads them.
template <class In>
concept ByteConvolutionInput = std::same_as<In, std::uint8_t> || std::same_as<In, float>;
/// Its output: the sums, or the sums dequantised.
template <class Out>
concept ByteConvolutionOutput = std::same_as<Out, std::int32_t> || std::same_as<Out, float>;

/// How a stream's functions take the quantizer of their input: on the CPU by reference, on a GPU as
/// a pointer to device memory.
template <class Stream>
using quantizer_on =
    std::conditional_t<std::same_as<Stream, cpu::stream>, const affine_quantizer<float>&,
                       const affine_quantizer<float>*>;

/// An engine that convolves bytes. The buffers:
///
///   x       (samples, C / V, H, W, V)    with V = block<float>(C)
///   y       (samples, K / V, I, J, V)    with V = block<float>(K)
///   weights (K, C, R, S)
///   packed  (packed_bytes(p)), written by pack_bytes
///   scales  (K), of the weights; not read where sums are written
///
/// Optional: packs_bytes_by_table (false), `packed` is as in ops/packed_table.hpp, so that on a GPU
/// one launch packs all parameters; computes_statistics (false), fprop_bytes to float takes
/// batch_statistics before s.
template <class E, class Stream = cpu::stream>
concept ByteEngine =
    requires(const convolution_problem& p, int samples, const float* x, const std::uint8_t* bytes,
             quantizer_on<Stream> k, const std::int8_t* weights, std::int8_t* packed,
             const float* scales, float* y, std::int32_t* sums, Stream s) {
      { E::packed_bytes(p) } -> std::same_as<std::size_t>;
      { E::pack_bytes(p, weights, packed, s) } -> std::same_as<void>;
      { E::fprop_bytes(p, samples, x, k, packed, scales, y, s) } -> std::same_as<void>;
      { E::fprop_bytes(p, samples, bytes, k, packed, scales, sums, s) } -> std::same_as<void>;
    };

/// A byte engine that computes the gradients itself, by backward_bytes, on numbers of type
/// E::byte_gradient: pack_dequantized writes packed_dequantized_size(p) of them from the
/// fake-quantised weights.
template <class E>
concept HasByteGradient = requires { typename E::byte_gradient; };

template <ByteConvolutionInput In>
CORDEE_HOST_DEVICE constexpr int to_byte(In x, const affine_quantizer<float>& k) {
  if constexpr (std::same_as<In, float>)
    return k.quantize(x);
  else
    return x;
}

CORDEE_HOST_DEVICE constexpr const affine_quantizer<float>& dereferenced(
    const affine_quantizer<float>& k) {
  return k;
}
CORDEE_HOST_DEVICE constexpr const affine_quantizer<float>& dereferenced(
    const affine_quantizer<float>* k) {
  return *k;
}

/// The preconditions of fprop_bytes; 255 x 127 x the terms of a sum stay below 2^31. A quantizer in
/// device memory is not read.
inline void check_byte_problem(const convolution_problem& p,
                               const affine_quantizer<float>* /*on_device*/) {
  expects(static_cast<std::int64_t>(p.in.channels) * p.window * p.window <= 66000,
          "a convolution of bytes sums at most 66,000 terms");
}
inline void check_byte_problem(const convolution_problem& p, const affine_quantizer<float>& k) {
  check_byte_problem(p, &k);
  expects(k.range == unsigned_bytes && k.zero_point >= 0 && k.zero_point <= 255,
          "a convolution of bytes reads unsigned bytes with a zero point in 0 .. 255");
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
