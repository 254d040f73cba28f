// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Engine `reference` on grids: a thread for every number of y and dx, a warp for every weight. The
// sums are made in what N is computed in.
#pragma once

#include <cordee/device/grid.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/ops/grid/packing.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// dw[block] <- or += the sum of what the threads find.
template <Number N, std::floating_point Real>
struct reference_wgrad_body {
  static constexpr int threads = 32;
  reference_wgrad_part<wide<N>, N> part;
  Real* dw;
  into how;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto sum =
        static_cast<Real>(b.sum(part(b.index(), static_cast<std::size_t>(b.thread()), threads)));
    if (b.thread() == 0) dw[b.index()] = how == into::add ? dw[b.index()] + sum : sum;
  }
};

}  // namespace detail

template <std::floating_point Real, Number N, GridStream S>
void reference_pack(const convolution_problem& p, const Real* master, N* packed, S s) {
  convert(p.weights(), master, packed, s);
}

template <Number N, GridStream S>
void reference_fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                     S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.out().size(),
           detail::reference_fprop_at<wide<N>, N>{p, x, packed, y});
}

template <Number N, GridStream S>
void reference_dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                     into how, S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.in.size(),
           detail::reference_dgrad_at<wide<N>, N>{p, dy, packed, dx, how});
}

template <Number N, std::floating_point Real, GridStream S>
void reference_wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, Real* dw,
                     into how, S s) {
  s.launch(p.weights(), detail::reference_wgrad_body<N, Real>{
                            {p, static_cast<std::size_t>(samples), x, dy}, dw, how});
}

template <GridStream S>
void reference_pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                          std::int8_t* packed, S s) {
  s.copy(packed, weights, p.weights());
}

template <ByteSource In, SumSink Out, GridStream S>
void reference_fprop_bytes(const convolution_problem& p, int samples, const In* x,
                           const affine<float>* k, const std::int8_t* packed, const float* scales,
                           Out* y, S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.out().size(),
           detail::reference_bytes_at<In, Out, const affine<float>*>{p, x, k, packed, scales, y});
}

}  // namespace cordee::inline CORDEE_ABI
