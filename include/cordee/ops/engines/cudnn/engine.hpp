// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine over cuDNN, in fp16, bf16 and fp32 with accumulation in float.
//
//   activations   (N, H, W, C')      channels padded to 16 bytes: (N, 1, H, W, V) of ops/layout.hpp
//   weights       (K', R, S, C')     for fprop and dgrad alike, zero in padded channels and filters
//
// cuDNN's engines write the weight gradient of 16-bit numbers in 16 bits; it is then added to dw in
// float.
#pragma once

#include <cordee/ops/engines/cudnn/plan_cache.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// Engine over cuDNN, whose plans are selected as `Settings` say.
template <cudnn_settings Settings>
struct cudnn_with {
  /// Says how plans are selected.
  static constexpr std::string_view name =
      Settings.deterministic
          ? (Settings.tf32 ? "cudnn, deterministic, TF32" : "cudnn, deterministic")
          : (Settings.tf32 ? "cudnn, TF32" : "cudnn");
  /// True: cuDNN rounds a gradient to N before it is added in Real.
  static constexpr bool rounds_weight_gradients = true;
  /// pack() writes the form of ops/packed_table.hpp, of block() channels and filters, and
  /// wgrad_packed() leaves a gradient in this form.
  static constexpr bool packs_by_table = true, packs_gradients = true;

  /// Returns the channels, padded to 16 bytes.
  template <detail::ops::CudnnType N>
  static constexpr int block(int channels) {
    return detail::ops::padded_channels<N>(channels);
  }
  /// Returns the numbers of the weights, channels and filters padded.
  template <detail::ops::CudnnType N>
  static std::size_t packed_size(const convolution_problem& p) {
    return detail::ops::padded_problem<N>(p).weights();
  }
  /// Numbers of the weight gradient (K', R, S, C') as cuDNN writes it.
  template <detail::ops::CudnnType N, GpuStream S>
  static std::size_t workspace(const convolution_problem& p, int /*samples*/, S) {
    return packed_size<N>(p);
  }
  /// See ConvolutionEngine.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   N* packed,           // (K', R, S, C')
                   S s) {
    pack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), master, packed, s);
  }

  /// See ConvolutionEngine. The first call for a problem and a batch may time plans, which blocks
  /// the host and cannot be captured.
  /// @throws error if cuDNN supports no such convolution on this GPU.
  template <detail::ops::CudnnType N, GpuStream S>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, H, W, C')
                    const N* packed,  // (K', R, S, C')
                    N* y,             // (N, H_out, W_out, K')
                    S s) {
    run(p, samples, detail::ops::convolution_pass::fprop, write_mode::overwrite, x, packed, y, s);
  }
  /// See ConvolutionEngine, and fprop.
  template <detail::ops::CudnnType N, GpuStream S>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (N, H_out, W_out, K')
                    const N* packed,  // (K', R, S, C')
                    N* dx,            // (N, H, W, C')
                    write_mode mode, S s) {
    run(p, samples, detail::ops::convolution_pass::dgrad, mode, dx, packed, dy, s);
  }
  /// See ConvolutionEngine, and fprop.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,   // (N, H, W, C')
                    const N* dy,  // (N, H_out, W_out, K')
                    Real* dw,     // (K, C, R, S)
                    write_mode mode,
                    N* workspace,  // (K', R, S, C')
                    S s) {
    if (samples == 0) {
      if (mode == write_mode::overwrite)
        for_each(s, p.weights(), detail::ops::set_zero_op<Real>{dw});
      return;
    }
    wgrad_packed(p, samples, x, dy, workspace, s);
    unpack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), workspace, dw, mode, s);
  }
  /// Computes the gradient in packed form; zero for no samples.
  template <detail::ops::CudnnType N, GpuStream S>
  static void wgrad_packed(const convolution_problem& p, int samples,
                           const N* x,    // (N, H, W, C')
                           const N* dy,   // (N, H_out, W_out, K')
                           N* packed_dw,  // (K', R, S, C')
                           S s) {
    if (samples == 0)
      for_each(s, packed_size<N>(p), detail::ops::set_zero_op<N>{packed_dw});
    else
      run(p, samples, detail::ops::convolution_pass::wgrad, write_mode::overwrite, x, packed_dw, dy,
          s);
  }

 private:
  /// The pass determines which of x (N, H, W, C'), w (K', R, S, C') and y (N, H_out, W_out, K') is
  /// written.
  template <class N, GpuStream S>
  static void run(const convolution_problem& p, int samples, detail::ops::convolution_pass pass,
                  write_mode mode, const N* x, const N* w, const N* y, S s) {
    if (samples == 0) return;
    const auto writable = [](const N* data) { return const_cast<N*>(data); };
    detail::ops::cudnn_plan_cache::current().execute(
        {detail::ops::padded_problem<N>(p), samples, pass, detail::ops::cudnn_data_type<N>,
         mode == write_mode::add, Settings},
        {writable(x), writable(w), writable(y)}, s);
  }
};

/// cuDNN with the fastest plan of each layer and pass, as measured on first use.
using cudnn = cudnn_with<cudnn_settings{}>;

namespace detail::ops {
template <>
struct engine_type<engine_name::cudnn> {
  using type = cudnn;
};
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
