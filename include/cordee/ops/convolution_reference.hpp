// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine that is obviously right: ops/convolution.hpp's three sums as loops over
// plain NCHW, each sum in double. Every other engine is tested against it.
#pragma once

#include <algorithm>

#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI {

struct reference {
  static constexpr std::string_view name = "reference";

  template <class Real>
  static constexpr int block(int /*channels*/) {
    return 1;
  }
  /// The image is the master itself: one form serves both directions.
  template <class Real>
  static std::size_t packed_size(const convolution_problem& p) {
    return p.weights();
  }
  template <class Real>
  static void pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream) {
    std::copy_n(master, p.weights(), packed);
  }
  template <class Real>
  static std::size_t workspace(const convolution_problem&, int /*samples*/, cpu::stream) {
    return 0;
  }

  template <class Real>
  static void fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                    Real* y, cpu::stream s) {
    const extent out = p.out();
    parallel(s, count(samples) * count(p.filters), 1, [=](std::size_t first, std::size_t last) {
      for (std::size_t plane = first; plane < last; ++plane) {
        const Real* const image = x + plane / count(p.filters) * p.in.size();
        const Real* const w = packed + plane % count(p.filters) * filter_size(p);
        Real* to = y + plane * out.pixels();
        for (int i = 0; i < out.height; ++i)
          for (int j = 0; j < out.width; ++j) {
            double sum = 0;
            for (int c = 0; c < p.in.channels; ++c)
              for (int r = 0; r < p.window; ++r)
                for (int q = 0; q < p.window; ++q)
                  sum +=
                      product(w[tap(p, c, r, q)], pixel(p, image, c, i * p.stride + r - p.padding,
                                                        j * p.stride + q - p.padding));
            *to++ = static_cast<Real>(sum);
          }
      }
    });
  }

  template <class Real>
  static void dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                    Real* dx, into how, cpu::stream s) {
    const extent out = p.out();
    parallel(s, count(samples) * count(p.in.channels), 1, [=](std::size_t first, std::size_t last) {
      for (std::size_t plane = first; plane < last; ++plane) {
        const Real* const image = dy + plane / count(p.in.channels) * out.size();
        const int c = static_cast<int>(plane % count(p.in.channels));
        Real* to = dx + plane * p.in.pixels();
        for (int h = 0; h < p.in.height; ++h)
          for (int l = 0; l < p.in.width; ++l, ++to) {
            double sum = how == into::add ? static_cast<double>(*to) : 0;
            for (int r = 0; r < p.window; ++r)
              for (int q = 0; q < p.window; ++q) {
                const int up = h + p.padding - r, left = l + p.padding - q;
                if (up < 0 || left < 0 || up % p.stride != 0 || left % p.stride != 0) continue;
                const int i = up / p.stride, j = left / p.stride;
                if (i >= out.height || j >= out.width) continue;
                for (int k = 0; k < p.filters; ++k)
                  sum += product(packed[count(k) * filter_size(p) + tap(p, c, r, q)],
                                 image[count(k) * out.pixels() + count(i * out.width + j)]);
              }
            *to = static_cast<Real>(sum);
          }
      }
    });
  }

  template <class Real>
  static void wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                    Real* dw, into how, Real* /*workspace*/, cpu::stream s) {
    const extent out = p.out();
    parallel(s, count(p.filters), 1, [=](std::size_t first, std::size_t last) {
      for (std::size_t k = first; k < last; ++k)
        for (int c = 0; c < p.in.channels; ++c)
          for (int r = 0; r < p.window; ++r)
            for (int q = 0; q < p.window; ++q) {
              Real& to = dw[k * filter_size(p) + tap(p, c, r, q)];
              double sum = how == into::add ? static_cast<double>(to) : 0;
              for (int n = 0; n < samples; ++n)
                for (int i = 0; i < out.height; ++i)
                  for (int j = 0; j < out.width; ++j)
                    sum +=
                        product(dy[(count(n) * count(p.filters) + k) * out.pixels() +
                                   count(i * out.width + j)],
                                pixel(p, x + count(n) * p.in.size(), c,
                                      i * p.stride + r - p.padding, j * p.stride + q - p.padding));
              to = static_cast<Real>(sum);
            }
    });
  }

 private:
  static constexpr std::size_t count(int n) { return static_cast<std::size_t>(n); }
  static constexpr std::size_t filter_size(const convolution_problem& p) {
    return count(p.in.channels) * count(p.window * p.window);
  }
  static constexpr std::size_t tap(const convolution_problem& p, int c, int r, int q) {
    return count((c * p.window + r) * p.window + q);
  }
  template <class Real>
  static constexpr double product(Real a, Real b) {
    return static_cast<double>(a) * static_cast<double>(b);
  }
  /// x[c, h, l], zero outside the image.
  template <class Real>
  static constexpr Real pixel(const convolution_problem& p, const Real* image, int c, int h,
                              int l) {
    if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) return 0;
    return image[(count(c) * count(p.in.height) + count(h)) * count(p.in.width) + count(l)];
  }
};
static_assert(ConvolutionEngine<reference, float> && ConvolutionEngine<reference, double>);

}  // namespace cordee::inline CORDEE_ABI
