// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Forward convolutions of bytes, summed in 32 bits.
//
//   sum[k, i, j] = sum over c, r, s of  w[k, c, r, s] (q[c, i t + r - p, j t + s - p] - z)
//   q = clip(round(x / s_x) + z, 0, 255),   y = sum   or   y = (s_x s_w[k]) sum
//
// An integer's sum has no order, so every engine has the same bits. What lies outside an image is
// the zero point, and adds nothing. No sum leaves 32 bits below 66,000 terms.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/quantise.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a byte convolution may read: bytes as they are, or numbers, quantised on the way.
template <class In>
concept ByteSource = std::same_as<In, std::uint8_t> || std::same_as<In, float>;
/// What it may write: the sums, or the numbers that they stand for.
template <class Out>
concept SumSink = std::same_as<Out, std::int32_t> || std::same_as<Out, float>;

/// How an engine is told what its bytes stand for: on a grid, by where that is in the device's
/// memory.
template <class Stream>
using scaling_on = std::conditional_t<std::same_as<Stream, cpu::stream>, const affine<float>&,
                                      const affine<float>*>;

/// An engine that convolves bytes. Activations lie as the engine's do in float; the image is
/// packed_bytes(p) bytes made by pack_bytes from canonical weights; `scales` are the weights', one
/// a filter, and not read for sums.
template <class E, class Stream = cpu::stream>
concept ByteEngine =
    requires(const convolution_problem& p, int samples, const float* x, const std::uint8_t* bytes,
             scaling_on<Stream> k, const std::int8_t* weights, std::int8_t* image,
             const float* scales, float* y, std::int32_t* sums, Stream s) {
      { E::packed_bytes(p) } -> std::same_as<std::size_t>;
      { E::pack_bytes(p, weights, image, s) } -> std::same_as<void>;
      { E::fprop_bytes(p, samples, x, k, image, scales, y, s) } -> std::same_as<void>;
      { E::fprop_bytes(p, samples, bytes, k, image, scales, sums, s) } -> std::same_as<void>;
    };

/// One with gradients of its own behind that, in numbers of a kind of its own: of the weights as
/// quantisation left them pack_left makes packed_left(p) of these.
template <class E>
concept ByteGradients = requires { typename E::byte_gradient; };

namespace detail {

template <ByteSource In>
CORDEE_HOST_DEVICE constexpr int byte_of(In x, const affine<float>& k) {
  if constexpr (std::same_as<In, float>)
    return k.quantise(x);
  else
    return x;
}

CORDEE_HOST_DEVICE constexpr const affine<float>& scaling_of(const affine<float>& k) { return k; }
CORDEE_HOST_DEVICE constexpr const affine<float>& scaling_of(const affine<float>* k) { return *k; }

/// What engines ask of a call; 255 x 127 x the terms of a sum stay below 2^31.
inline void expect_byte_sums(const convolution_problem& p, const affine<float>* /*unread*/) {
  expects(static_cast<std::int64_t>(p.in.channels) * p.window * p.window <= 66000,
          "a convolution of bytes sums at most 66,000 terms");
}
inline void expect_byte_sums(const convolution_problem& p, const affine<float>& k) {
  expect_byte_sums(p, &k);
  expects(k.to == unsigned_bytes && k.zero >= 0 && k.zero <= 255,
          "a convolution of bytes reads unsigned ones, whose zero point is one of them");
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
