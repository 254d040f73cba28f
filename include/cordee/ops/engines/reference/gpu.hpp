// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of engine `reference`: one thread for every number of y and dx, one warp for every
// weight. Sums are made in wide<N>.
#pragma once

#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// dw[block] <- or += the sum of the threads' parts.
template <Number N, std::floating_point Real>
struct reference_wgrad_kernel {
  static constexpr int threads = 32;
  reference_wgrad_sum<precision::wide<N>, N> part;
  Real* dw;  // (K, C, R, S)
  write_mode mode;

  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const auto sum =
        static_cast<Real>(b.sum(part(b.index(), static_cast<std::size_t>(b.thread()), threads)));
    if (b.thread() == 0) dw[b.index()] = mode == write_mode::add ? dw[b.index()] + sum : sum;
  }
};

/// master (K, C, R, S), packed (K, C, R, S)
template <std::floating_point Real, Number N, GpuStream S>
void reference_pack(const convolution_problem& p, const Real* master, N* packed, S s) {
  convert(p.weights(), master, packed, s);
}

/// x (samples, C, H, W), packed (K, C, R, S), y (samples, K, I, J)
template <Number N, GpuStream S>
void reference_fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                     S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.out().size(),
           reference_fprop_op<precision::wide<N>, N>{p, x, packed, y});
}

/// dy (samples, K, I, J), packed (K, C, R, S), dx (samples, C, H, W)
template <Number N, GpuStream S>
void reference_dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                     write_mode mode, S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.in.size(),
           reference_dgrad_op<precision::wide<N>, N>{p, dy, packed, dx, mode});
}

/// x (samples, C, H, W), dy (samples, K, I, J), dw (K, C, R, S)
template <Number N, std::floating_point Real, GpuStream S>
void reference_wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, Real* dw,
                     write_mode mode, S s) {
  s.launch_kernel(p.weights(), reference_wgrad_kernel<N, Real>{
                                   {p, static_cast<std::size_t>(samples), x, dy}, dw, mode});
}

/// weights (K, C, R, S), packed (K, C, R, S)
template <GpuStream S>
void reference_pack_bytes(const convolution_problem& p, const std::int8_t* weights,
                          std::int8_t* packed, S s) {
  s.copy(packed, weights, p.weights());
}

/// x (samples, C, H, W), packed (K, C, R, S), scales (K), y (samples, K, I, J)
template <ByteConvolutionInput In, ByteConvolutionOutput Out, GpuStream S>
void reference_fprop_bytes(const convolution_problem& p, int samples, const In* x,
                           const affine_quantizer<float>* k, const std::int8_t* packed,
                           const float* scales, Out* y, S s) {
  for_each(s, static_cast<std::size_t>(samples) * p.out().size(),
           reference_bytes_op<In, Out, const affine_quantizer<float>*>{p, x, k, packed, scales, y});
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
