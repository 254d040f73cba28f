// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `winograd`: 3x3 windows of stride 1 and padding 1 by F(2x2, 3x3), with 16 multiplications
// instead of 36 (Winograd, 1980; Lavin and Gray, 2016), if images and channels are large enough for
// tiles to pay off (`uses_tiles`); with registers of 32 bytes or more y and dx of images wider than
// 7 pixels by F(2x4, 3x3), 24 instead of 72 (`winograd_width`), dw always by F(2x2, 3x3). Engine
// `direct` computes all other problems.
//
// An element of a tile sums one product per channel, a pixel in `direct` nine: in fp32 the error is
// about that of `direct` (tests/ops/engines/winograd/engine.cpp; with F(4x4, 3x3) it would be twice
// as large). Packed weights need 16 or 24 numbers instead of 9.
#pragma once

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/winograd/correlation.hpp>
#include <cordee/ops/engines/winograd/packed_weights.hpp>
#include <cordee/ops/engines/winograd/weight_gradient.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// The parameters are those of direct_with.
template <int Bytes, bool Dots = false, bool BfloatDots = false>
struct winograd_with {
  using fallback = direct_with<Bytes, Dots, BfloatDots>;  ///< Computes what `uses_tiles` rejects.
  static constexpr std::string_view name = "winograd";    ///< See ConvolutionEngine.

  /// Returns the block of engine `direct`.
  template <class N>
  static constexpr int block(int channels) {
    return fallback::template block<N>(channels);
  }
  /// Channels and filters together of the smallest problem on tiles. With fewer the transforms cost
  /// what they save. 16 and 16 are faster on tiles with registers of 64 bytes, not with 32.
  static constexpr int fewest_channels = Bytes == 64 ? 32 : 33;
  /// Whether a problem is computed on tiles.
  template <class N>
  static constexpr bool uses_tiles(const convolution_problem& p) {
    constexpr int V = width<N>;
    return p.window == 3 && p.stride == 1 && p.padding == 1 &&
           channel_block_size<V>(p.in.channels) == V && channel_block_size<V>(p.filters) == V &&
           p.in.height > 2 && p.in.width > 2 && p.in.channels + p.filters >= fewest_channels;
  }
  /// Returns the size of both transformed copies, in numbers; or direct's.
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    if (!uses_tiles<N>(p)) return fallback::template packed_size<N>(p);
    return packed_weights<N>(p).size() * numbers_per_wide<N>;
  }
  /// Rounds the weights to N and transforms them; or packs as direct.
  template <class N>
  static void pack(const convolution_problem& p,
                   const precision::wide<N>* master,  // (K, C, R, S)
                   N* packed,  // (elements, K, C), (elements, C, K); or direct's
                   cpu::stream s) {
    if (!uses_tiles<N>(p)) return fallback::pack(p, master, packed, s);
    packed_weights<N>(p).template pack<N>(master, as_wide(packed), s);
  }

  /// See ConvolutionEngine.
  template <class N>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, C/V, H, W, V)
                    const N* packed,  // (elements, K, C), (elements, C, K); or direct's
                    N* y,             // (N, K/V, H', W', V)
                    cpu::stream s) {
    if (!uses_tiles<N>(p)) return fallback::fprop(p, samples, x, packed, y, s);
    const winograd_correlation<N, width<N>> pass(p, false);
    pass.run(samples, x, as_wide(packed), y, write_mode::overwrite, s);
  }
  /// See ConvolutionEngine.
  template <class N>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (N, K/V, H', W', V)
                    const N* packed,  // (elements, K, C), (elements, C, K); or direct's
                    N* dx,            // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    if (!uses_tiles<N>(p)) return fallback::dgrad(p, samples, dy, packed, dx, mode, s);
    const winograd_correlation<N, width<N>> pass(p, true);
    pass.run(samples, dy, as_wide(packed) + packed_weights<N>(p).fprop.size(), dx, mode, s);
  }

  /// Returns the memory for the groups' transformed gradients; or direct's.
  template <class N>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream s) {
    if (!uses_tiles<N>(p)) return fallback::template workspace<N>(p, samples, s);
    return winograd_weight_gradient<N, width<N>>(p).workspace(samples) * numbers_per_wide<N>;
  }
  /// See ConvolutionEngine.
  template <class N>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,              // (N, C/V, H, W, V)
                    const N* dy,             // (N, K/V, H', W', V)
                    precision::wide<N>* dw,  // (K, C, R, S)
                    write_mode mode,
                    N* workspace,  // (groups, 16, K, C); or direct's
                    cpu::stream s) {
    if (!uses_tiles<N>(p)) return fallback::wgrad(p, samples, x, dy, dw, mode, workspace, s);
    const winograd_weight_gradient<N, width<N>> pass(p);
    pass.run(samples, x, dy, dw, mode, as_wide(workspace), s);
  }

 private:
  template <class N>
  static constexpr int width = Bytes / static_cast<int>(sizeof(precision::wide<N>));
  template <class N>
  static auto packed_weights(const convolution_problem& p) {
    return winograd_packed_weights<precision::wide<N>, width<N>>(p);
  }
};

}  // namespace detail::ops

/// The engine for this build's ISA.
using winograd = detail::ops::winograd_with<detail::ops::register_bytes, detail::ops::byte_dots,
                                            detail::ops::bfloat_dots>;
static_assert(ConvolutionEngine<winograd, float> && ConvolutionEngine<winograd, double> &&
              ConvolutionEngine<winograd, half, float> &&
              ConvolutionEngine<winograd, bfloat, float>);

namespace detail::ops {
template <>
struct engine_type<engine_name::winograd> {
  using type = winograd;
};
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
