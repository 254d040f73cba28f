// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `reference` on activations in blocks of two registers, as engines with tiles have them:
// the passes between its convolutions meet blocks of both widths.
#pragma once

#include <string_view>
#include <vector>

#include <cordee/ops/cpu/simd.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/ops/layout.hpp>

namespace support {

using namespace cordee;

struct wide_blocks : reference {
  static constexpr std::string_view name = "wide_blocks";

  template <class N>
  static constexpr int block(int channels) {
    constexpr int V = detail::ops::lanes<float>;
    return channels >= 2 * V ? 2 * V : channels <= 4 ? channels : V;
  }

  template <class N>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                    cpu::stream s) {
    std::vector<N> to(static_cast<std::size_t>(samples) * p.out().size());
    reference::fprop(p, samples, planes(p.in, samples, x).data(), packed, to.data(), s);
    to_blocks(p.out(), samples, to, y);
  }
  template <class N>
  static void dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                    write_mode mode, cpu::stream s) {
    std::vector<N> to = planes(p.in, samples, dx);
    reference::dgrad(p, samples, planes(p.out(), samples, dy).data(), packed, to.data(), mode, s);
    to_blocks(p.in, samples, to, dx);
  }
  template <class N>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy,
                    detail::precision::wide<N>* dw, write_mode mode, N* workspace, cpu::stream s) {
    reference::wgrad(p, samples, planes(p.in, samples, x).data(),
                     planes(p.out(), samples, dy).data(), dw, mode, workspace, s);
  }

 private:
  /// Calls f(index in NCHW, index in blocks) for every number.
  template <class N, class F>
  static void for_each_number(const extent& e, int samples, const F& f) {
    const auto V = static_cast<std::size_t>(block<N>(e.channels)), pixels = e.pixels();
    std::size_t i = 0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
      for (std::size_t c = 0; c < static_cast<std::size_t>(e.channels); ++c)
        for (std::size_t p = 0; p < pixels; ++p)
          f(i++, n * detail::ops::sample_size(e, block<N>(e.channels)) + (c / V * pixels + p) * V +
                     c % V);
  }
  template <class N>
  static std::vector<N> planes(const extent& e, int samples, const N* blocks) {
    std::vector<N> x(static_cast<std::size_t>(samples) * e.size());
    for_each_number<N>(e, samples, [&](std::size_t i, std::size_t at) { x[i] = blocks[at]; });
    return x;
  }
  /// Writes zeros to padding channels.
  template <class N>
  static void to_blocks(const extent& e, int samples, const std::vector<N>& x, N* blocks) {
    std::fill_n(
        blocks,
        static_cast<std::size_t>(samples) * detail::ops::sample_size(e, block<N>(e.channels)), N{});
    for_each_number<N>(e, samples, [&](std::size_t i, std::size_t at) { blocks[at] = x[i]; });
  }
};

}  // namespace support
