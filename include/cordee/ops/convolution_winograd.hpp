// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `winograd`: 3x3 windows of stride 1 and padding 1 by F(2x2, 3x3), 16 multiplications for
// 36 (Winograd, 1980; Lavin and Gray, 2016); everything else by engine `direct`.
//
// An element of a tile sums one product for each channel, where a pixel sums nine: in fp32 results
// are about as near to exact ones as those of `direct`, or nearer
// (tests/ops/convolution_winograd.cpp). Weights take 16 numbers for 9.
#pragma once

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/winograd/correlation.hpp>
#include <cordee/ops/winograd/weight_gradient.hpp>
#include <cordee/ops/winograd/weights.hpp>
#include <cordee/precision/fp32.hpp>

namespace cordee::inline CORDEE_ABI {

/// Bytes is a register's size, as for direct_with.
template <int Bytes, bool Dots = false>
struct winograd_with {
  using plain = direct_with<Bytes, Dots>;
  static constexpr std::string_view name = "winograd";

  template <class Real>
  static constexpr int block(int channels) {
    return plain::template block<Real>(channels);
  }
  /// Whether a problem goes by tiles. With few channels going there and back costs what is saved.
  template <class Real>
  static constexpr bool tiles(const convolution_problem& p) {
    constexpr int V = width<Real>;
    return p.window == 3 && p.stride == 1 && p.padding == 1 &&
           detail::direct_block<V>(p.in.channels) == V && detail::direct_block<V>(p.filters) == V &&
           p.in.height > 2 && p.in.width > 2 && p.in.channels + p.filters > 32;
  }
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    if (!tiles<Real>(p)) return plain::template packed_size<Real>(p);
    return image<Real>(p).size();
  }
  template <class Real>
  static void pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream s) {
    if (!tiles<Real>(p)) return plain::pack(p, master, packed, s);
    image<Real>(p).pack(master, packed, s);
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                    Real* y, cpu::stream s) {
    if (!tiles<Real>(p)) return plain::fprop(p, samples, x, packed, y, s);
    const detail::winograd_correlation<Real, width<Real>> pass(p, false);
    pass.run(samples, x, packed, y, into::overwrite, s);
  }
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                    Real* dx, into how, cpu::stream s) {
    if (!tiles<Real>(p)) return plain::dgrad(p, samples, dy, packed, dx, how, s);
    const detail::winograd_correlation<Real, width<Real>> pass(p, true);
    pass.run(samples, dy, packed + image<Real>(p).forwards.size(), dx, how, s);
  }

  template <class Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream s) {
    if (!tiles<Real>(p)) return plain::template workspace<Real>(p, samples, s);
    return detail::winograd_weight_gradient<Real, width<Real>>(p).workspace(samples);
  }
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                    Real* dw, into how, Real* workspace, cpu::stream s) {
    if (!tiles<Real>(p)) return plain::wgrad(p, samples, x, dy, dw, how, workspace, s);
    const detail::winograd_weight_gradient<Real, width<Real>> pass(p);
    pass.run(samples, x, dy, dw, how, workspace, s);
  }

 private:
  template <class Real>
  static constexpr int width = Bytes / static_cast<int>(sizeof(Real));
  template <class Real>
  static auto image(const convolution_problem& p) {
    return detail::winograd_image<Real, width<Real>>(p);
  }
};

/// The engine for the ISA of this build.
using winograd = winograd_with<register_bytes, byte_dots>;
static_assert(ConvolutionEngine<winograd, float> && ConvolutionEngine<winograd, double>);

/// What networks in fp32 take on the CPU.
template <>
struct engine_for<cpu, fp32> {
  using type = winograd;
};

}  // namespace cordee::inline CORDEE_ABI
