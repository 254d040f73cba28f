// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CPU's default convolution engine: ops/convolution.hpp's sums over blocked activations,
// (N, C / V, H, W, V), with the compiler's own vector types and no other dependency.
//
// V numbers fill one register of the build's ISA. The image holds the weights twice: (K / V, C / V,
// R, S, V of C, V of K) for fprop, and with the roles of K and C exchanged for dgrad.
#pragma once

#include <algorithm>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/bytes.hpp>
#include <cordee/ops/direct/correlation.hpp>
#include <cordee/ops/direct/weight_gradient.hpp>

namespace cordee::inline CORDEE_ABI {

/// Bytes is a register's size, Dots says whether it multiplies bytes by fours: objects that were
/// built for different ISAs keep apart by name.
template <int Bytes, bool Dots = false>
struct direct_with {
  static constexpr std::string_view name = "direct";

  template <class Real>
  static constexpr int block(int channels) {
    return detail::direct_block<width<Real>>(channels);
  }
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    return forwards<Real>(p).size() + back<Real>(p).size();
  }
  template <class Real>
  static void pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream s) {
    constexpr int V = width<Real>;
    const auto ahead = forwards<Real>(p), behind = back<Real>(p);
    Real* const second = packed + ahead.size();
    // Channels that only fill a block are zero here, so that they stay zero in y and dx.
    if (ahead.size() + behind.size() != 2 * p.weights())
      std::fill(packed, second + behind.size(), Real{});
    parallel(s, blocks_of(p.filters, V), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t b = first; b < last; ++b) {  // the second time from near
        Real* const block = packed + static_cast<std::ptrdiff_t>(b) * ahead.block_size();
        ahead.pack(b, b + 1, master, block);
        ahead.turn(b, b + 1, block, second);
      }
    });
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                    Real* y, cpu::stream s) {
    const detail::correlation<Real, width<Real>> pass(p, false);
    pass.run(samples, x, packed, y, into::overwrite, s);
  }
  template <class Real>
  static void dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                    Real* dx, into how, cpu::stream s) {
    const detail::correlation<Real, width<Real>> pass(p, true);
    pass.run(samples, dy, packed + forwards<Real>(p).size(), dx, how, s);
  }

  template <class Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream) {
    return detail::weight_gradient<Real, width<Real>>(p).workspace(samples);
  }
  template <class Real>
  static void wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                    Real* dw, into how, Real* workspace, cpu::stream s) {
    detail::weight_gradient<Real, width<Real>>(p).run(samples, x, dy, dw, how, workspace, s);
  }

  static std::size_t packed_bytes(const convolution_problem& p) { return bytes(p).packed_size(); }
  static void pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                         std::int8_t* packed, cpu::stream) {
    bytes(p).pack(weights, packed);
  }
  template <ByteSource In, SumSink Out>
  static void fprop_bytes(const convolution_problem& p, int samples, const In* x,
                          const affine<float>& k, const std::int8_t* packed, const float* scales,
                          Out* y, cpu::stream s) {
    detail::expect_byte_sums(p, k);
    bytes(p).run(samples, x, k, packed, scales, y, s);
  }

 private:
  template <class Real>
  static constexpr int width = Bytes / static_cast<int>(sizeof(Real));
  static auto bytes(const convolution_problem& p) {
    return detail::byte_correlation<width<float>, Dots>(p);
  }
  template <class Real>
  static constexpr auto forwards(const convolution_problem& p) {
    return detail::packed_form<width<Real>>{p.filters, p.in.channels, p.window};
  }
  template <class Real>
  static constexpr auto back(const convolution_problem& p) {
    return detail::packed_form<width<Real>>{p.in.channels, p.filters, p.window};
  }
};

/// The engine for the ISA of this build.
using direct = direct_with<register_bytes, byte_dots>;
static_assert(ConvolutionEngine<direct, float> && ConvolutionEngine<direct, double> &&
              ByteEngine<direct>);

template <>
struct usual_engine<cpu> {
  using type = direct;
};

}  // namespace cordee::inline CORDEE_ABI
