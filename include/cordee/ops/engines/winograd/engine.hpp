// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `winograd`: 3x3 windows of stride 1 and padding 1 by F(2x2, 3x3), 16 multiplications
// instead of 36 (Winograd, 1980; Lavin and Gray, 2016); all other problems by engine `direct`.
//
// An element of a tile sums one product per channel, a pixel of `direct` nine: in fp32 the error is
// about that of `direct`, or smaller (tests/ops/engines/winograd/engine.cpp). Packed weights take
// 16 numbers for 9.
#pragma once

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/winograd/correlation.hpp>
#include <cordee/ops/engines/winograd/weight_gradient.hpp>
#include <cordee/ops/engines/winograd/weights.hpp>
#include <cordee/precision/fp32.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// Bytes is the size of a SIMD register, as for direct_with.
template <int Bytes, bool Dots = false>
struct winograd_with {
  using fallback = direct_with<Bytes, Dots>;
  static constexpr std::string_view name = "winograd";

  template <class Real>
  static constexpr int block(int channels) {
    return fallback::template block<Real>(channels);
  }
  /// Whether a problem is computed on tiles. With few channels the transforms cost what they save.
  template <class Real>
  static constexpr bool uses_tiles(const convolution_problem& p) {
    constexpr int V = width<Real>;
    return p.window == 3 && p.stride == 1 && p.padding == 1 &&
           direct_block<V>(p.in.channels) == V && direct_block<V>(p.filters) == V &&
           p.in.height > 2 && p.in.width > 2 && p.in.channels + p.filters > 32;
  }
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    if (!uses_tiles<Real>(p)) return fallback::template packed_size<Real>(p);
    return packed_weights<Real>(p).size();
  }
  template <class Real>
  static void pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream s) {
    if (!uses_tiles<Real>(p)) return fallback::pack(p, master, packed, s);
    packed_weights<Real>(p).pack(master, packed, s);
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                    Real* y, cpu::stream s) {
    if (!uses_tiles<Real>(p)) return fallback::fprop(p, samples, x, packed, y, s);
    const winograd_correlation<Real, width<Real>> pass(p, false);
    pass.run(samples, x, packed, y, write_mode::overwrite, s);
  }
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                    Real* dx, write_mode mode, cpu::stream s) {
    if (!uses_tiles<Real>(p)) return fallback::dgrad(p, samples, dy, packed, dx, mode, s);
    const winograd_correlation<Real, width<Real>> pass(p, true);
    pass.run(samples, dy, packed + packed_weights<Real>(p).fprop.size(), dx, mode, s);
  }

  template <class Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream s) {
    if (!uses_tiles<Real>(p)) return fallback::template workspace<Real>(p, samples, s);
    return winograd_weight_gradient<Real, width<Real>>(p).workspace(samples);
  }
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                    Real* dw, write_mode mode, Real* workspace, cpu::stream s) {
    if (!uses_tiles<Real>(p)) return fallback::wgrad(p, samples, x, dy, dw, mode, workspace, s);
    const winograd_weight_gradient<Real, width<Real>> pass(p);
    pass.run(samples, x, dy, dw, mode, workspace, s);
  }

 private:
  template <class Real>
  static constexpr int width = Bytes / static_cast<int>(sizeof(Real));
  template <class Real>
  static auto packed_weights(const convolution_problem& p) {
    return winograd_packed_weights<Real, width<Real>>(p);
  }
};

}  // namespace detail::ops

/// The engine for this build's ISA.
using winograd = detail::ops::winograd_with<detail::ops::register_bytes, detail::ops::byte_dots>;
static_assert(ConvolutionEngine<winograd, float> && ConvolutionEngine<winograd, double>);

/// The CPU's default in fp32.
template <>
struct engine_for<cpu, fp32> {
  using type = winograd;
};

}  // namespace cordee::inline CORDEE_ABI
