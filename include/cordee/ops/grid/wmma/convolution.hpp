// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine on tensor cores that is our own: implicit products of matrices in fp16 and
// bf16, summed in float, and forwards of bytes, summed in 32 bits.
//
// Activations lie as NHWC with channels filled up to 16 bytes, (N, 1, H, W, V) of ops/layout.hpp.
// The image of the weights is two: (K', R, S, C') for fprop and (C', R, S, K') for dgrad, zero
// where a channel or a filter only fills, so that both are one kernel, a sweep. A tile's width
// follows from the layer's filters; 128 pixels are its height.
#pragma once

#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/ops/grid/wmma/bytes.hpp>
#include <cordee/ops/grid/wmma/correlation.hpp>
#include <cordee/ops/grid/wmma/epilogue.hpp>
#include <cordee/ops/grid/wmma/prologue.hpp>
#include <cordee/ops/grid/wmma/weight_gradient.hpp>
#include <cordee/ops/layout.hpp>

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

/// Pixels are counted in 32 bits, a step beyond the last one included.
inline void expect_pixels(const sweep& at) {
  expects(at.pixels() <= 2'000'000'000, "wmma: a batch has at most 2,000,000,000 pixels");
}

template <class N, class Before, class After, GridStream S>
void correlate(const sweep& at, const N* in, const typename wmma_number<N>::weight* w,
               const Before& before, const After& after, S s) {
  expect_pixels(at);
  with_wmma_tile(at.filters, [&](auto tile) {
    const correlation_body<N, decltype(tile), Before, After> body{at, in, w, before, after};
    s.launch(body.blocks(), body);
  });
}

}  // namespace detail

struct wmma {
  static constexpr std::string_view name = "wmma";

  /// Of floats, which only go with bytes, as many as of these.
  template <class N>
    requires(detail::WmmaNumber<N> || std::same_as<N, float>)
  static constexpr int block(int channels) {
    return detail::wmma_filled<std::conditional_t<detail::WmmaNumber<N>, N, std::uint8_t>>(
        channels);
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
    sweep_back(p, samples, dy, packed + one_form<N>(p).size(), stored<N>{dx, how}, s);
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
    weigh(p, samples, x, dy, before, reinterpret_cast<float*>(workspace), s);
    for_each(s, p.weights(),
             detail::add_parts_at<Real>{one_form<N>(p), reinterpret_cast<float*>(workspace),
                                        parts<N>(p, samples).count, dw, how});
  }

  static std::size_t packed_bytes(const convolution_problem& p) {
    const detail::krsc form = one_form<float>(p);
    return form.size() + sizeof(std::int32_t) * form.padded_filters;
  }
  template <GridStream S>
  static void pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                         std::int8_t* packed, S s) {
    const detail::krsc form = one_form<float>(p);
    for_each(s, form.size(), detail::pack_bytes_at{form, weights, packed});
    auto* const sums = reinterpret_cast<std::int32_t*>(packed + form.size());
    for_each(s, form.padded_filters, detail::sum_filter_at{form, weights, sums});
  }
  template <ByteSource In, SumSink Out, GridStream S>
  static void fprop_bytes(const convolution_problem& p, int samples, const In* x,
                          const affine<float>* k, const std::int8_t* packed, const float* scales,
                          Out* y, S s) {
    detail::expect_byte_sums(p, k);
    if constexpr (std::same_as<In, float>) {
      const std::size_t n =
          static_cast<std::size_t>(samples) * sample_size(p.in, block<float>(p.in.channels));
      const lent<std::uint8_t, S> bytes(s, n);
      for_each(s, n, detail::quantise_at{x, k, bytes.data()});
      fprop_bytes<std::uint8_t>(p, samples, bytes.data(), k, packed, scales, y, s);
    } else {
      const auto* const sums =
          reinterpret_cast<const std::int32_t*>(packed + one_form<float>(p).size());
      detail::correlate(detail::fprop_sweep<std::uint8_t>(p, samples), x, packed,
                        detail::zero_point_outside{k},
                        detail::sunk<Out>{y, sums, k, scales, p.filters}, s);
    }
  }

  /// The numbers that gradients behind a convolution of bytes are products of.
  using byte_gradient = bfloat;
  static std::size_t packed_left(const convolution_problem& p) { return one_form<float>(p).size(); }
  template <GridStream S>
  static void pack_left(const convolution_problem& p, const float* left, bfloat* packed, S s) {
    const detail::krsc form = one_form<float>(p);
    for_each(s, form.size(), detail::pack_crsk_at<float, bfloat>{form, left, packed});
  }
  /// dw of what quantisation left of x, and, unless it is null, dx, where x passed straight
  /// through.
  template <class Real, GridStream S>
  static void backward_bytes(const convolution_problem& p, int samples, const float* x,
                             const affine<float>* k, const float* dy, const bfloat* packed,
                             Real* dw, into mode, float* dx, into how, S s) {
    convolution_problem lies = p;  // with the channels that fill memory, as bytes want it
    lies.in.channels = block<float>(p.in.channels);
    lies.filters = block<float>(p.filters);
    const std::size_t in = static_cast<std::size_t>(samples) * lies.in.size(),
                      out = static_cast<std::size_t>(samples) * lies.out().size();
    const lent<bfloat, S> left(s, in), slope(s, out);
    for_each(s, in, detail::simulate_narrow{x, k, left.data()});
    convert(out, dy, slope.data(), s);
    const detail::krsc form = one_form<float>(p);
    const std::size_t count = parts<bfloat>(lies, samples).count;
    const lent<float, S> part(s, count * form.size());
    weigh(lies, samples, left.data(), slope.data(), as_it_is{}, part.data(), s);
    for_each(s, p.weights(), detail::add_parts_at<Real>{form, part.data(), count, dw, mode});
    if (dx != nullptr)
      sweep_back(lies, samples, slope.data(), packed, detail::passed_straight{x, k, dx, how}, s);
  }

 private:
  template <class N, class After, class S>
  static void sweep_back(const convolution_problem& p, int samples, const N* dy,
                         const N* transposed, const After& after, S s) {
    for (int row = 0; row < p.stride; ++row)
      for (int column = 0; column < p.stride; ++column) {
        const auto at = detail::dgrad_sweep<N>(p, samples, row, column);
        if (after.how == into::overwrite || at.terms() != 0)
          detail::correlate(at, dy, transposed, as_it_is{}, after, s);
      }
  }
  template <class N, class Before, class S>
  static void weigh(const convolution_problem& p, int samples, const N* x, const N* dy,
                    const Before& before, float* part, S s) {
    const auto at = detail::fprop_sweep<N>(p, samples);
    detail::expect_pixels(at);
    const split by = parts<N>(p, samples);
    detail::with_wmma_tile(at.filters, [&](auto tile) {
      s.launch(by.count * by.tiles, detail::weight_gradient_body<N, decltype(tile), Before>{
                                        at, x, dy, before, part, by.steps});
    });
  }

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
