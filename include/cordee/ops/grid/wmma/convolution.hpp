// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine on tensor cores that is our own: implicit products of matrices in fp16 and
// bf16, summed in float.
//
// Activations lie as NHWC with channels filled up to 16 bytes, (N, 1, H, W, V) of ops/layout.hpp.
// The image of the weights is two: (K', R, S, C') for fprop and (C', R, S, K') for dgrad, zero
// where a channel or a filter only fills, so that both are one kernel, a sweep. A tile's width
// follows from the layer's filters; 128 pixels are its height.
#pragma once

#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/ops/grid/wmma/correlation.hpp>
#include <cordee/ops/grid/wmma/epilogue.hpp>
#include <cordee/ops/grid/wmma/prologue.hpp>
#include <cordee/ops/grid/wmma/weight_gradient.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// packed[c, r, s, k] = master[k, c, r, s],  0 where k >= K or c >= C
template <class Real, Number N>
struct pack_crsk_at {
  krsc place;
  const Real* master;
  N* packed;
  CORDEE_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<unsigned>(i);
    const unsigned k = at % place.padded_filters, row = at / place.padded_filters;
    const unsigned tap = row % place.taps, c = row / place.taps;
    packed[i] =
        c < place.channels && k < place.filters
            ? rounded<N>(static_cast<wide<N>>(master[(k * place.channels + c) * place.taps + tap]))
            : N{};
  }
};

template <class N, class Before, class After, GridStream S>
void correlate(const sweep& at, const N* in, const typename wmma_number<N>::weight* w,
               const Before& before, const After& after, S s) {
  expects(at.pixels() < 1u << 31, "wmma: a batch of fewer than 2^31 pixels");
  with_wmma_tile(at.filters, [&](auto tile) {
    const correlation_body<N, decltype(tile), Before, After> body{at, in, w, before, after};
    s.launch(body.blocks(), body);
  });
}

}  // namespace detail

struct wmma {
  static constexpr std::string_view name = "wmma";

  template <detail::WmmaNumber N>
  static constexpr int block(int channels) {
    return detail::wmma_filled<N>(channels);
  }
  template <detail::WmmaNumber N>
  static std::size_t packed_size(const convolution_problem& p) {
    return 2 * one_form<N>(p).size();
  }
  template <detail::WmmaNumber N, class Real, GridStream S>
  static void pack(const convolution_problem& p, const Real* master, N* packed, S s) {
    const detail::krsc form = one_form<N>(p);
    for_each(s, form.size(), detail::pack_krsc_at<Real, N>{form, master, packed});
    for_each(s, form.size(), detail::pack_crsk_at<Real, N>{form, master, packed + form.size()});
  }

  template <detail::WmmaNumber N, GridStream S>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                    S s) {
    fprop(p, samples, x, packed, as_it_is{}, stored<N>{y}, s);
  }
  /// With what is done to x before and to the sums behind (wmma/prologue.hpp, epilogue.hpp).
  template <detail::WmmaNumber N, class Before, class After, GridStream S>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* packed,
                    const Before& before, const After& after, S s) {
    detail::correlate(detail::fprop_sweep<N>(p, samples), x, packed, before, after, s);
  }

  template <detail::WmmaNumber N, GridStream S>
  static void dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                    into how, S s) {
    const N* const transposed = packed + one_form<N>(p).size();
    for (int row = 0; row < p.stride; ++row)
      for (int column = 0; column < p.stride; ++column) {
        const auto at = detail::dgrad_sweep<N>(p, samples, row, column);
        if (how == into::overwrite || at.terms() != 0)
          detail::correlate(at, dy, transposed, as_it_is{}, stored<N>{dx, how}, s);
      }
  }

  /// Room for parts of the weight gradient, which are floats.
  template <detail::WmmaNumber N, GridStream S>
  static std::size_t workspace(const convolution_problem& p, int samples, S) {
    return parts<N>(p, samples).count * one_form<N>(p).size() * sizeof(float) / sizeof(N);
  }
  template <detail::WmmaNumber N, class Real, GridStream S>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, Real* dw,
                    into how, N* workspace, S s) {
    wgrad(p, samples, x, dy, as_it_is{}, dw, how, workspace, s);
  }
  template <detail::WmmaNumber N, class Before, class Real, GridStream S>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy,
                    const Before& before, Real* dw, into how, N* workspace, S s) {
    auto* const part = reinterpret_cast<float*>(workspace);
    const auto at = detail::fprop_sweep<N>(p, samples);
    const split by = parts<N>(p, samples);
    detail::with_wmma_tile(at.filters, [&](auto tile) {
      s.launch(by.count * by.tiles, detail::weight_gradient_body<N, decltype(tile), Before>{
                                        at, x, dy, before, part, by.steps});
    });
    for_each(s, p.weights(), detail::add_parts_at<Real>{one_form<N>(p), part, by.count, dw, how});
  }

 private:
  struct split {
    std::size_t tiles, count;  // of a part, of parts
    int steps;
  };
  template <class N>
  static split parts(const convolution_problem& p, int samples) {
    const auto at = detail::fprop_sweep<N>(p, samples);
    split out{};
    detail::with_wmma_tile(at.filters, [&](auto tile) {
      using T = decltype(tile);
      constexpr std::size_t pixels = T::step_bytes / sizeof(N);
      out.tiles = blocks_for(static_cast<std::size_t>(at.terms()), T::rows) *
                  blocks_for(static_cast<std::size_t>(at.filters), T::columns);
      const std::size_t steps = blocks_for(at.pixels(), pixels);
      out.steps = detail::steps_of_part(steps, out.tiles);
      out.count = out.steps == 0 ? 0 : blocks_for(steps, static_cast<std::size_t>(out.steps));
    });
    return out;
  }
  template <class N>
  static detail::krsc one_form(const convolution_problem& p) {
    return {p, block<N>(p.in.channels), block<N>(p.filters)};
  }
};

}  // namespace cordee::inline CORDEE_ABI
