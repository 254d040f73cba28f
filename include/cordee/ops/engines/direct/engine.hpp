// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tuned convolution engine of the CPU, without dependencies: ops/convolution.hpp's sums over
// activations (N, C/V, H, W, V), by the compiler's vector types. V numbers fill one register.
//
// It adds to engine `blocked`: tiles of many pixels x filter blocks in registers (tile.hpp,
// rows3x3.hpp, wgrad_tile.hpp), bands of rows and parts of channels that stay in a cache
// (correlation_plan.hpp, weight_gradient_plan.hpp), and prefetches.
//
// The packed weights hold every weight twice: (K/V, C/B, R, S, B of C, V of K) for fprop, with
// B = V or, of few channels, C; and with K and C exchanged for dgrad.
#pragma once

#include <algorithm>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/bytes.hpp>
#include <cordee/ops/engines/direct/correlation.hpp>
#include <cordee/ops/engines/direct/weight_gradient.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// Bytes is the size of a register, Dots whether the ISA multiplies bytes in fours. Objects built
/// for different ISAs have different types, and so can be linked together.
template <int Bytes, bool Dots = false>
struct direct_with {
  static constexpr std::string_view name = "direct";

  template <class Real>
  static constexpr int block(int channels) {
    return direct_block<width<Real>>(channels);
  }
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    return forward_form<Real>(p).size() + backward_form<Real>(p).size();
  }
  template <class Real>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   Real* packed,        // forward_form, backward_form
                   cpu::stream s) {
    constexpr int V = width<Real>;
    const auto forward = forward_form<Real>(p), backward = backward_form<Real>(p);
    Real* const second = packed + forward.size();
    // Zero weights for channels that only fill a block keep these zero in y and dx.
    if (forward.size() + backward.size() != 2 * p.weights())
      std::fill(packed, second + backward.size(), Real{});
    parallel_chunks(s, channel_blocks(p.filters, V), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t b = first; b < last; ++b) {
        Real* const block = packed + static_cast<std::ptrdiff_t>(b) * forward.block_size();
        forward.pack(b, b + 1, master, block);
        forward.swap_channels(b, b + 1, block, second);  // while the block is in the cache
      }
    });
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples,
                    const Real* x,  // (N, C/V, H, W, V)
                    const Real* packed,
                    Real* y,  // (N, K/V, H', W', V)
                    cpu::stream s) {
    const correlation<Real, width<Real>> pass(p, false);
    pass.run(samples, x, packed, y, write_mode::overwrite, s);
  }
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples,
                    const Real* dy,  // (N, K/V, H', W', V)
                    const Real* packed,
                    Real* dx,  // (N, C/V, H, W, V)
                    write_mode mode, cpu::stream s) {
    const correlation<Real, width<Real>> pass(p, true);
    pass.run(samples, dy, packed + forward_form<Real>(p).size(), dx, mode, s);
  }

  template <class Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream) {
    return plan_weight_gradient<Real, width<Real>>(p, samples).workspace();
  }
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples,
                    const Real* x,   // (N, C/V, H, W, V)
                    const Real* dy,  // (N, K/V, H', W', V)
                    Real* dw,        // (K, C, R, S)
                    write_mode mode,
                    Real* workspace,  // workspace(p, samples, s)
                    cpu::stream s) {
    weight_gradient<Real, width<Real>>(p, samples).run(x, dy, dw, mode, workspace, s);
  }

  static std::size_t packed_bytes(const convolution_problem& p) { return bytes(p).packed_size(); }
  static void pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                         std::int8_t* packed, cpu::stream) {
    bytes(p).pack(weights, packed);
  }
  template <ByteConvolutionInput In, ByteConvolutionOutput Out>
  static void fprop_bytes(const convolution_problem& p, int samples, const In* x,
                          const affine_quantizer<float>& k, const std::int8_t* packed,
                          const float* scales, Out* y, cpu::stream s) {
    check_byte_problem(p, k);
    bytes(p).run(samples, x, k, packed, scales, y, s);
  }

 private:
  template <class Real>
  static constexpr int width = Bytes / static_cast<int>(sizeof(Real));
  static auto bytes(const convolution_problem& p) {
    return byte_correlation<width<float>, Dots>(p);
  }
  template <class Real>
  static constexpr auto forward_form(const convolution_problem& p) {
    return packed_form<width<Real>>{p.filters, p.in.channels, p.window};
  }
  template <class Real>
  static constexpr auto backward_form(const convolution_problem& p) {
    return packed_form<width<Real>>{p.in.channels, p.filters, p.window};
  }
};

}  // namespace detail::ops

/// The engine for the ISA of this build.
using direct = detail::ops::direct_with<detail::ops::register_bytes, detail::ops::byte_dots>;
static_assert(ConvolutionEngine<direct, float> && ConvolutionEngine<direct, double> &&
              detail::ops::ByteEngine<direct>);

template <>
struct default_engine<cpu> {
  using type = direct;
};

}  // namespace cordee::inline CORDEE_ABI
