// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tuned convolution engine for CPUs, without dependencies: ops/convolution.hpp's sums over
// activations (N, C/V, H, W, V), in the compiler's vector types. V floats or doubles fill one
// register; with at most four channels V = C.
//
// It adds to engine `blocked`: tiles of many pixels x filter blocks in registers (tiles/tile.hpp,
// tiles/rows3x3.hpp, tiles/wgrad_tile.hpp), bands of rows and parts of channels that stay in a
// cache (tiles/correlation_plan.hpp, tiles/weight_gradient_plan.hpp), and prefetches.
//
// The packed weights hold every weight twice: (K/V, C/B, R, S, B of C, V of K) for fprop, with B =
// V or, for few channels, C; and with K and C exchanged for dgrad. If bf16 is multiplied in pairs,
// they have the form in bf16/bfloat.hpp.
#pragma once

#include <cordee/core/algorithm.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat.hpp>
#include <cordee/ops/engines/direct/bf16/bfloat_packing.hpp>
#include <cordee/ops/engines/direct/correlation.hpp>
#include <cordee/ops/engines/direct/int8/bytes.hpp>
#include <cordee/ops/engines/direct/weight_gradient.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// Bytes is the size of a register, Dots whether the ISA multiplies bytes in fours, BfloatDots
/// whether it multiplies bf16 in pairs. Objects built for different ISAs have different types, and
/// so can be linked together.
template <int Bytes, bool Dots = false, bool BfloatDots = false>
struct direct_with {
  static constexpr std::string_view name = "direct";  ///< See ConvolutionEngine.

  /// Returns V, or the number of channels if at most four.
  template <class N>
  static constexpr int block(int channels) {
    return channel_block_size<width<N>>(channels);
  }
  /// Returns the size of both copies of the weights, in numbers.
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    return packed_fprop_size<N>(p) + packed_dgrad_size<N>(p);
  }
  /// Packs wide<N> weights, rounded to N; or bf16 weights, for products in pairs.
  template <class N>
  static void pack(const convolution_problem& p,
                   const precision::wide<N>* master,  // (K, C, R, S)
                   N* packed,  // (K/V, C/B, R, S, B, V), then (C/V, K/B, R, S, B, V)
                   cpu::stream s) {
    constexpr int V = width<N>;
    if constexpr (std::same_as<N, bfloat> && BfloatDots) {
      if (in_pairs<N>(p, false))
        return pack_pairs(p, master, packed, packed + packed_fprop_size<N>(p), s);
    }
    const auto forward = forward_form<N>(p), backward = backward_form<N>(p);
    precision::wide<N>* const first_block = as_wide(packed);          // (K/V, C/B, R, S, B, V)
    precision::wide<N>* const second = first_block + forward.size();  // (C/V, K/B, R, S, B, V)
    // Zero weights for channels that only fill a block keep these zero in y and dx.
    if (forward.size() + backward.size() != 2 * p.weights())
      std::fill(first_block, second + backward.size(), precision::wide<N>{});
    device::parallel_chunks(
        s, channel_blocks(p.filters, V), 1, [&](std::size_t first, std::size_t last) {
          for (std::size_t b = first; b < last; ++b) {
            precision::wide<N>* const block =  // (C/B, R, S, B, V)
                first_block + static_cast<std::ptrdiff_t>(b) * forward.block_size();
            forward.pack(b, b + 1, master, block);
            round_all<N>(block, static_cast<std::size_t>(forward.block_size()));
            forward.swap_channels(b, b + 1, block, second);  // while the block is in the cache
          }
        });
  }

  /// See ConvolutionEngine.
  template <class N>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, C/V, H, W, V)
                    const N* packed,  // (K/V, C/B, R, S, B, V), then those of dgrad
                    N* y,             // (N, K/V, H', W', V)
                    cpu::stream s) {
    if constexpr (std::same_as<N, bfloat> && BfloatDots)
      if (in_pairs<N>(p, false))
        return pairs<width<N>>(p, false).run(samples, x, packed, y, write_mode::overwrite, s);
    const correlation<N, width<N>> pass(p, false);
    pass.run(samples, x, as_wide(packed), y, write_mode::overwrite, s);
  }
  /// See ConvolutionEngine.
  template <class N>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (N, K/V, H', W', V)
                    const N* packed,  // those of fprop, then (C/V, K/B, R, S, B, V)
                    N* dx,            // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    const N* const weights = packed + packed_fprop_size<N>(p);  // (C/V, K/B, R, S, B, V)
    if constexpr (std::same_as<N, bfloat> && BfloatDots)
      if (in_pairs<N>(p, true))
        return pairs<width<N>>(p, true).run(samples, dy, weights, dx, mode, s);
    const correlation<N, width<N>> pass(p, true);
    pass.run(samples, dy, as_wide(weights), dx, mode, s);
  }

  /// Returns the memory for what the plan gathers from x, and for partial gradients.
  template <class N>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream) {
    return plan_weight_gradient<precision::wide<N>, width<N>>(p, samples).workspace() *
           numbers_per_wide<N>;
  }
  /// See ConvolutionEngine.
  template <class N>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,              // (N, C/V, H, W, V)
                    const N* dy,             // (N, K/V, H', W', V)
                    precision::wide<N>* dw,  // (K, C, R, S)
                    write_mode mode,
                    N* workspace,  // (N, C/V, H', W', V) behind a stride, (groups, packed weights)
                    cpu::stream s) {
    weight_gradient<N, width<N>, std::same_as<N, bfloat> && BfloatDots>(p, samples)
        .run(x, dy, dw, mode, as_wide(workspace), s);
  }

  /// Returns the bytes in the form of int8/bytes.hpp.
  static std::size_t packed_bytes(const convolution_problem& p) { return bytes(p).packed_size(); }
  /// See ByteEngine (ops/convolution_bytes.hpp).
  static void pack_bytes(const convolution_problem& p,
                         const std::int8_t* weights,  // (K, C, R, S)
                         std::int8_t* packed,         // packed_bytes(p), as in int8/bytes.hpp
                         cpu::stream) {
    bytes(p).pack(weights, packed);
  }
  /// See ByteEngine (ops/convolution_bytes.hpp).
  /// @throws usage_error if a sum has more than 66,000 terms, or if a quantizer's output is not
  /// unsigned bytes.
  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  static void fprop_bytes(const convolution_problem& p, int samples,
                          const In* x,  // (N, C/V, H, W, V)
                          const affine_quantizer<float>& k,
                          const std::int8_t* packed,  // packed_bytes(p), as in int8/bytes.hpp
                          const float* scales,        // (K)
                          Out* y,                     // (N, K/V, H', W', V)
                          cpu::stream s) {
    check_byte_problem(p, k);
    bytes(p).run(samples, x, k, packed, scales, y, s);
  }

 private:
  template <int V>
  static auto pairs(const convolution_problem& p, bool backward) {
    return bfloat_correlation<V, BfloatDots>(p, backward);
  }
  /// Whether a direction is computed by products in pairs. dgrad is only where fprop is.
  template <class N>
  static constexpr bool in_pairs(const convolution_problem& p, bool backward) {
    return std::same_as<N, bfloat> && BfloatDots &&
           bfloat_correlation<width<N>, BfloatDots>::applies_to(p, backward);
  }
  /// In numbers of N.
  template <class N>
  static std::size_t packed_fprop_size(const convolution_problem& p) {
    if constexpr (std::same_as<N, bfloat> && BfloatDots)
      if (in_pairs<N>(p, false)) return pairs<width<N>>(p, false).packed_size();
    return forward_form<N>(p).size() * numbers_per_wide<N>;
  }
  template <class N>
  static std::size_t packed_dgrad_size(const convolution_problem& p) {
    return backward_form<N>(p).size() * (in_pairs<N>(p, true) ? 1 : numbers_per_wide<N>);
  }
  template <class N>
  static void pack_pairs(const convolution_problem& p,
                         const float* master,  // (K, C, R, S)
                         N* fprop, N* dgrad, cpu::stream s) {
    constexpr int V = width<N>;
    const bool in_pairs_too = in_pairs<N>(p, true);
    if (bfloat_packing<V>::applies_to(p)) {
      const bfloat_packing<V> both(p);
      return in_pairs_too ? both.pack(master, fprop, dgrad, s)
                          : both.pack(master, fprop, as_wide(dgrad), s);
    }
    pairs<V>(p, false).pack(master, fprop, s);
    in_pairs_too ? pairs<V>(p, true).pack(master, dgrad, s) : pack_dgrad(p, master, dgrad, s);
  }
  /// The weights of dgrad alone.
  template <class N>
  static void pack_dgrad(const convolution_problem& p,
                         const precision::wide<N>* master,  // (K, C, R, S)
                         N* packed,                         // (C/V, K/B, R, S, B, V) in wide<N>
                         cpu::stream s) {
    constexpr int V = width<N>;
    const auto forward = forward_form<N>(p), backward = backward_form<N>(p);
    std::fill_n(as_wide(packed), backward.size(), precision::wide<N>{});
    device::parallel_dynamic(s, channel_blocks(p.filters, V), [&](std::size_t b) {
      thread_local scratch<precision::wide<N>> memory;
      const auto size = static_cast<std::size_t>(forward.block_size());
      precision::wide<N>* const block = memory.reserve(size);  // (C/B, R, S, B, V)
      std::fill_n(block, size, precision::wide<N>{});
      forward.pack(b, b + 1, master, block);
      round_all<N>(block, size);
      forward.swap_channels(b, b + 1, block, as_wide(packed));
    });
  }

  template <class N>
  static constexpr int width = Bytes / static_cast<int>(sizeof(precision::wide<N>));
  static auto bytes(const convolution_problem& p) {
    return byte_correlation<width<float>, Dots>(p);
  }
  template <class N>
  static constexpr auto forward_form(const convolution_problem& p) {
    return packed_form<width<N>>{p.filters, p.in.channels, p.window};
  }
  template <class N>
  static constexpr auto backward_form(const convolution_problem& p) {
    return packed_form<width<N>>{p.in.channels, p.filters, p.window};
  }
};

}  // namespace detail::ops

/// The engine for the ISA of this build.
using direct = detail::ops::direct_with<detail::ops::register_bytes, detail::ops::byte_dots,
                                        detail::ops::bfloat_dots>;
static_assert(ConvolutionEngine<direct, float> && ConvolutionEngine<direct, double> &&
              ConvolutionEngine<direct, half, float> && ConvolutionEngine<direct, bfloat, float> &&
              detail::ops::ByteEngine<direct>);

namespace detail::ops {
template <>
struct engine_type<engine_name::direct> {
  using type = direct;
};
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
