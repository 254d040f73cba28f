// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a convolution layer, and the concept of an engine that computes it.
//
//   fprop:  y[k, i, j]     = sum over c, r, s of  w[k, c, r, s] x[c, i t + r - p, j t + s - p]
//   dgrad:  dx[c, h, l]    = sum over k, r, s of  w[k, c, r, s] dy[k, (h + p - r)/t, (l + p - s)/t]
//   wgrad:  dw[k, c, r, s] = sum over n, i, j of  dy[k, i, j] x[c, i t + r - p, j t + s - p]
//
// with stride t and padding p. Terms outside an image, and terms of dgrad whose quotient is not an
// integer, are zero.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/precision/number.hpp>

namespace cordee::inline CORDEE_ABI {

/// Geometry of one layer: square windows, one group, no dilation. A structural type.
struct convolution_problem {
  extent in;  ///< Extent of the input.
  /// Output channels, side of the window, stride t, and padding p on each side.
  int filters = 0, window = 1, stride = 1, padding = 0;
  /// Pixels of zeros that are in memory before each row of the input: an engine's image_margin.
  int margin = 0;

  /// Returns the extent of the output. Requires a window no larger than the padded input.
  [[nodiscard]] constexpr extent out() const {
    return {filters, (in.height + 2 * padding - window) / stride + 1,
            (in.width + 2 * padding - window) / stride + 1};
  }
  /// Numbers in the canonical weight tensor (K, C, R, S).
  [[nodiscard]] constexpr std::size_t weights() const {
    return static_cast<std::size_t>(filters) * static_cast<std::size_t>(in.channels) *
           static_cast<std::size_t>(window * window);
  }
  /// Multiplications of one sample's forward pass, including those with padding.
  [[nodiscard]] constexpr std::int64_t macs() const {
    return static_cast<std::int64_t>(weights()) * static_cast<std::int64_t>(out().pixels());
  }
  friend constexpr bool operator==(const convolution_problem&,
                                   const convolution_problem&) = default;
};

/// Computes convolutions on a device's streams, with activations and packed weights of type N;
/// master weights and weight gradients are Real. Requires `samples` >= 0. The buffers:
///
///   x, dx       (samples, C / V, H, W, V)    with V = block<N>(C), see ops/layout.hpp
///   y, dy       (samples, K / V, I, J, V)    with V = block<N>(K)
///   master, dw  (K, C, R, S)
///   packed      (packed_size<N>(p)),           written by `pack`, read by fprop and dgrad
///   workspace   (workspace<N>(p, samples, s)), for wgrad
///
/// Sums of 16-bit numbers are in fp32 or wider and are rounded once, to N in y and dx. `packed` and
/// `workspace` are aligned for Real, as engines may keep floats in them. Packed weights are the
/// master weights rounded to N (by `winograd` before it transforms them). Channels that only pad
/// the last block are zero in x and dy, and are written as zero in y and dx. The bits of a result
/// depend neither on the stream's number of workers nor on the order in which thread blocks run.
///
///   optional member            default   meaning
///   rounds_weight_gradients    false     dw is rounded to N before it is added to a Real
///   shares_backward            false     backward<N>(p, samples, x, dy, packed, dw, dw_mode,
///                                        workspace, dx, dx_mode, s) is wgrad and dgrad
///   computes_statistics        false     fprop<N>(p, samples, x, packed, y, statistics, s) makes
///                                        those of y for a batch norm (batch_statistics)
///   fuses_batch_norm           false     in 16 bits a convolution may read what a batch norm with
///                                        ReLU reads (normalized_input): fprop_normalized,
///                                        wgrad_normalized, wgrad_packed_normalized,
///                                        dgrad_normalized; note(not_fused) of those that may not
///   image_margin<N>(p)         0         convolution_problem::margin of a network's images; only
///                                        they have one, and no dgrad is asked for then
///   packs_by_table             false     `packed` is as in ops/packed_table.hpp: on a GPU one
///                                        launch packs all parameters
///   packs_crsk                 false     and has a second copy in the order (C', R, S, K')
///   packs_gradients            false     wgrad_packed<N>(p, samples, x, dy, packed_dw, s) leaves a
///                                        gradient in that form, for one launch that unpacks all;
///                                        `workspace` has room for it
///   for int8                   none      packed_bytes, pack_bytes, fprop_bytes, byte_gradient,
///                                        packs_bytes_by_table: ops/convolution_bytes.hpp
template <class E, class N, class Real = N, class Stream = cpu::stream>
concept ConvolutionEngine =
    Number<N> && std::floating_point<Real> && std::copyable<E> &&
    requires(const E e, const convolution_problem& p, int samples, const N* in, N* out,
             const Real* master, Real* dw, write_mode mode, Stream s) {
      { E::name } -> std::convertible_to<std::string_view>;
      { E::template block<N>(samples) } -> std::same_as<int>;
      { e.template packed_size<N>(p) } -> std::same_as<std::size_t>;
      { e.template workspace<N>(p, samples, s) } -> std::same_as<std::size_t>;
      { e.template pack<N>(p, master, out, s) } -> std::same_as<void>;
      { e.template fprop<N>(p, samples, in, in, out, s) } -> std::same_as<void>;
      { e.template dgrad<N>(p, samples, in, in, out, mode, s) } -> std::same_as<void>;
      { e.template wgrad<N>(p, samples, in, in, dw, mode, out, s) } -> std::same_as<void>;
    };

}  // namespace cordee::inline CORDEE_ABI
