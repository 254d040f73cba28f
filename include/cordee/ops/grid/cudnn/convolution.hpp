// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolution engine of CUDA's own library, in fp16, bf16 and fp32 with sums in float.
//
// Activations lie as NHWC with channels filled up to 16 bytes, (N, 1, H, W, V) of ops/layout.hpp;
// weights as (K', R, S, C'), one form for fprop and dgrad, zero where a channel or a filter only
// fills. A weight gradient of narrow numbers is one too, since no engine writes float from them;
// it is added in float.
#pragma once

#include <cordee/ops/grid/cudnn/desk.hpp>
#include <cordee/ops/grid/packing.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {
template <class Real>
struct set_zero {
  Real* to;
  CORDEE_DEVICE void operator()(std::size_t i) const { to[i] = 0; }
};
}  // namespace detail

template <cudnn_settings How>
struct cudnn_with {
  static constexpr std::string_view name =
      How.deterministic ? (How.tf32 ? "cudnn, deterministic, TF32" : "cudnn, deterministic")
                        : (How.tf32 ? "cudnn, TF32" : "cudnn");
  static constexpr bool rounds_weight_gradients = true;  // to N, before they are added to Real

  template <detail::CudnnNumber N>
  static constexpr int block(int channels) {
    return detail::in_memory<N>(channels);
  }
  template <detail::CudnnNumber N>
  static std::size_t packed_size(const convolution_problem& p) {
    return detail::in_memory<N>(p).weights();
  }
  /// Room for the weight gradient as cuDNN writes it.
  template <detail::CudnnNumber N, GridStream S>
  static std::size_t workspace(const convolution_problem& p, int /*samples*/, S) {
    return packed_size<N>(p);
  }
  template <detail::CudnnNumber N, class Real, GridStream S>
  static void pack(const convolution_problem& p, const Real* master, N* packed, S s) {
    pack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), master, packed, s);
  }

  template <detail::CudnnNumber N, GridStream S>
  static void fprop(const convolution_problem& p, int samples, const N* x, const N* packed, N* y,
                    S s) {
    run(p, samples, detail::convolution_pass::fprop, into::overwrite, x, packed, y, s);
  }
  template <detail::CudnnNumber N, GridStream S>
  static void dgrad(const convolution_problem& p, int samples, const N* dy, const N* packed, N* dx,
                    into how, S s) {
    run(p, samples, detail::convolution_pass::dgrad, how, dx, packed, dy, s);
  }
  template <detail::CudnnNumber N, class Real, GridStream S>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, Real* dw,
                    into how, N* workspace, S s) {
    if (samples == 0) {
      if (how == into::overwrite) for_each(s, p.weights(), detail::set_zero<Real>{dw});
      return;
    }
    run(p, samples, detail::convolution_pass::wgrad, into::overwrite, x, workspace, dy, s);
    unpack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), workspace, dw, how, s);
  }

 private:
  /// The pass says which of the three is written.
  template <class N, GridStream S>
  static void run(const convolution_problem& p, int samples, detail::convolution_pass pass,
                  into how, const N* x, const N* w, const N* y, S s) {
    if (samples == 0) return;
    const auto memory = [](const N* of) { return const_cast<N*>(of); };
    detail::cudnn_desk::here().run(
        {detail::in_memory<N>(p), samples, pass, detail::cudnn_number<N>, how == into::add, How},
        {memory(x), memory(w), memory(y)}, s);
  }
};

/// The quickest engine that cuDNN has for each layer on this GPU.
using cudnn = cudnn_with<cudnn_settings{}>;

}  // namespace cordee::inline CORDEE_ABI
