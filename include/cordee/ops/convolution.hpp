// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a convolution layer, and what an engine does with it.
//
//   y[k, i, j]      = sum over c, r, s of  w[k, c, r, s] x[c, i t + r - p, j t + s - p]     fprop
//   dx[c, h, l]     = sum over k, r, s of  w[k, c, r, s] dy[k, (h + p - r) / t, (l + p - s) / t]
//   dgrad dw[k, c, r, s]  = sum over n, i, j of  dy[k, i, j] x[c, i t + r - p, j t + s - p] wgrad
//
// with stride t and padding p; what lies outside an image, and a quotient that is not whole, is
// zero.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cordee/core/extent.hpp>
#include <cordee/core/protocol.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

/// One layer's geometry: square windows, no groups, no dilation. A structural type.
struct convolution_problem {
  extent in;
  int filters = 0, window = 1, stride = 1, padding = 0;

  [[nodiscard]] constexpr extent out() const {
    return {filters, (in.height + 2 * padding - window) / stride + 1,
            (in.width + 2 * padding - window) / stride + 1};
  }
  /// Numbers of the canonical weight tensor (K, C, R, S).
  [[nodiscard]] constexpr std::size_t weights() const {
    return static_cast<std::size_t>(filters) * static_cast<std::size_t>(in.channels) *
           static_cast<std::size_t>(window * window);
  }
  /// Multiplications of one sample's forward pass, those with padding included.
  [[nodiscard]] constexpr std::int64_t macs() const {
    return static_cast<std::int64_t>(weights()) * static_cast<std::int64_t>(out().pixels());
  }
  friend constexpr bool operator==(const convolution_problem&,
                                   const convolution_problem&) = default;
};

/// Computes convolutions on a device's streams: of activations and images of N, whose masters and
/// weight gradients are Real. Activations lie as ops/layout.hpp says, in blocks of
/// block(channels); channels that only fill the last block are zero in x and dy, and are written as
/// zero in y and dx. Weights arrive as an image that `pack` made of the canonical master and that
/// serves both fprop and dgrad; weight gradients leave in canonical order. Samples may be none. The
/// results' bits do not depend on how many workers the stream has, nor on which block runs first.
template <class E, class N, class Real = N, class Stream = cpu::stream>
concept ConvolutionEngine =
    Number<N> && std::floating_point<Real> && std::copyable<E> &&
    requires(const E e, const convolution_problem& p, int samples, const N* in, N* out,
             const Real* master, Real* dw, into how, Stream s) {
      { E::name } -> std::convertible_to<std::string_view>;
      { E::template block<N>(samples) } -> std::same_as<int>;
      { e.template packed_size<N>(p) } -> std::same_as<std::size_t>;
      { e.template workspace<N>(p, samples, s) } -> std::same_as<std::size_t>;  // for wgrad
      { e.template pack<N>(p, master, out, s) } -> std::same_as<void>;
      { e.template fprop<N>(p, samples, in, in, out, s) } -> std::same_as<void>;
      { e.template dgrad<N>(p, samples, in, in, out, how, s) } -> std::same_as<void>;
      { e.template wgrad<N>(p, samples, in, in, dw, how, out, s) } -> std::same_as<void>;
    };

/// The engine of a device for a network that names none; the engine that is it says so.
struct reference;
template <class D>
struct usual_engine {
  using type = reference;
};
/// The same where the precision has a say.
template <class D, class P>
struct engine_for : usual_engine<D> {};

}  // namespace cordee::inline CORDEE_ABI
