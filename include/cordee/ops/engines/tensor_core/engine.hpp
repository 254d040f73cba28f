// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Cordee's convolution engine on tensor cores: implicit GEMMs in fp16 and bf16, accumulated in
// float, and fprop of bytes, accumulated in 32 bits.
//
//   activations      (N, H, W, C')    = (N, 1, H, W, V) of ops/layout.hpp, V 16 bytes and more
//   packed weights   (K', R, S, C')   for fprop, then
//                    (C', R, S, K')   for dgrad, so that both are one kernel; padding is zero
//
// A tile has 128 pixels and a width that depends on the layer's filters.
#pragma once

#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/engines/tensor_core/bytes.hpp>
#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/engines/tensor_core/dgrad.hpp>
#include <cordee/ops/engines/tensor_core/epilogue.hpp>
#include <cordee/ops/engines/tensor_core/prologue.hpp>
#include <cordee/ops/engines/tensor_core/weight_gradient.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI {

/// Engine on a GPU's tensor cores; layouts are at the header's top.
struct tensor_core {
  static constexpr std::string_view name = "tensor_core";  ///< See ConvolutionEngine.
  /// pack() writes the form of ops/packed_table.hpp, of block() channels and filters, in both
  /// orders; pack_bytes() and pack_dequantized() write its forms of quantized weights.
  static constexpr bool packs_by_table = true, packs_crsk = true, packs_bytes_by_table = true;
  /// backward() computes both gradients of a layer in fewer launches than wgrad() and dgrad().
  static constexpr bool shares_backward = true;
  /// fprop() and fprop_bytes() to float also compute the statistics of a batch norm on y.
  static constexpr bool computes_statistics = true;

  /// float activations, which occur only beside bytes, are padded as bytes are.
  template <class N>
    requires(detail::ops::TensorCoreNumber<N> || std::same_as<N, float>)
  static constexpr int block(int channels) {
    return detail::ops::tensor_core_channels<
        std::conditional_t<detail::ops::TensorCoreNumber<N>, N, std::uint8_t>>(channels);
  }
  /// Returns the size of both copies of the weights, in numbers.
  template <detail::ops::TensorCoreNumber N>
  static std::size_t packed_size(const convolution_problem& p) {
    return 2 * layout_of<N>(p).size();
  }
  /// Writes both copies, with zeros as padding.
  template <detail::ops::TensorCoreNumber N, class Real, GpuStream S>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   N* packed,           // (K', R, S, C'), then (C', R, S, K')
                   S s) {
    const detail::ops::krsc_layout layout = layout_of<N>(p);
    detail::ops::pack_filters(layout, master, packed, packed + layout.size(), s);
  }

  /// See ConvolutionEngine.
  /// @throws usage_error, as do dgrad and wgrad, for windows above 15 x 15, or above 2e9 output
  /// pixels.
  template <detail::ops::TensorCoreNumber N, GpuStream S>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, H, W, C')
                    const N* packed,  // (K', R, S, C'), then those of dgrad
                    N* y,             // (N, H_out, W_out, K')
                    S s) {
    fprop(p, samples, x, packed, y, detail::ops::batch_statistics<float>{}, s);
  }
  /// Forward pass that also computes the statistics of y, unless they are null.
  template <detail::ops::TensorCoreNumber N, class Real, GpuStream S>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, H, W, C')
                    const N* packed,  // (K', R, S, C'), then those of dgrad
                    N* y,             // (N, H_out, W_out, K')
                    const detail::ops::batch_statistics<Real>& statistics, S s) {
    detail::ops::with_moments(
        detail::ops::fprop_gemm<N>(p, samples), detail::ops::store_epilogue<N>{y}, statistics, s,
        [&](const auto& epilogue) {
          fprop(p, samples, x, packed, detail::ops::identity_prologue{}, epilogue, s);
        });
  }
  /// Forward pass with a prologue on x and an epilogue (prologue.hpp, epilogue.hpp).
  template <detail::ops::TensorCoreNumber N, class Prologue, class Epilogue, GpuStream S>
  static void fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, H, W, C')
                    const N* packed,  // (K', R, S, C'), then those of dgrad
                    const Prologue& prologue, const Epilogue& epilogue, S s) {
    detail::ops::launch_correlation(detail::ops::fprop_gemm<N>(p, samples), x, packed, prologue,
                                    epilogue, s);
  }

  /// See ConvolutionEngine.
  template <detail::ops::TensorCoreNumber N, GpuStream S>
  static void dgrad(const convolution_problem& p, int samples,
                    const N* dy,      // (N, H_out, W_out, K')
                    const N* packed,  // those of fprop, then (C', R, S, K')
                    N* dx,            // (N, H, W, C')
                    write_mode mode, S s) {
    const unpack<float>* const nothing = nullptr;
    detail::ops::launch_dgrad(p, samples, dy, packed + layout_of<N>(p).size(),
                              detail::ops::store_epilogue<N>{dx, mode}, nothing, s);
  }

  /// Numbers of type N that hold the partial weight gradients, (splits, K', R, S, C') in float.
  template <detail::ops::TensorCoreNumber N, GpuStream S>
  static std::size_t workspace(const convolution_problem& p, int samples, S) {
    return detail::ops::plan_splits<N>(p, samples).splits * layout_of<N>(p).size() * sizeof(float) /
           sizeof(N);
  }
  /// See ConvolutionEngine.
  template <detail::ops::TensorCoreNumber N, class Real, GpuStream S>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,   // (N, H, W, C')
                    const N* dy,  // (N, H_out, W_out, K')
                    Real* dw,     // (K, C, R, S)
                    write_mode mode,
                    N* workspace,  // (splits, K', R, S, C') in float
                    S s) {
    wgrad(p, samples, x, dy, detail::ops::identity_prologue{}, dw, mode, workspace, s);
  }
  /// Computes wgrad with a prologue on x (prologue.hpp).
  template <detail::ops::TensorCoreNumber N, class Prologue, class Real, GpuStream S>
  static void wgrad(const convolution_problem& p, int samples,
                    const N* x,   // (N, H, W, C')
                    const N* dy,  // (N, H_out, W_out, K')
                    const Prologue& prologue,
                    Real* dw,  // (K, C, R, S)
                    write_mode mode, N* workspace, S s) {
    float* const partial = reinterpret_cast<float*>(workspace);  // (splits, K', R, S, C')
    const unpack<Real> sum = detail::ops::launch_weight_gradient(layout_of<N>(p), p, samples, x, dy,
                                                                 prologue, partial, dw, mode, s);
    s.launch_kernel(sum.tile.blocks(), sum);
  }
  /// Computes wgrad and dgrad of one layer, which share their last launch.
  template <detail::ops::TensorCoreNumber N, class Real, GpuStream S>
  static void backward(const convolution_problem& p, int samples,
                       const N* x,       // (N, H, W, C')
                       const N* dy,      // (N, H_out, W_out, K')
                       const N* packed,  // (K', R, S, C'), (C', R, S, K')
                       Real* dw,         // (K, C, R, S)
                       write_mode dw_mode,
                       N* workspace,  // (splits, K', R, S, C') in float
                       N* dx,         // (N, H, W, C')
                       write_mode dx_mode, S s) {
    const unpack<Real> sum = detail::ops::launch_weight_gradient(
        layout_of<N>(p), p, samples, x, dy, detail::ops::identity_prologue{},
        reinterpret_cast<float*>(workspace), dw, dw_mode, s);
    detail::ops::launch_dgrad(p, samples, dy, packed + layout_of<N>(p).size(),
                              detail::ops::store_epilogue<N>{dx, dx_mode}, &sum, s);
  }

  /// Returns the bytes of the padded weights and of one sum per filter.
  static std::size_t packed_bytes(const convolution_problem& p) {
    const detail::ops::krsc_layout layout = layout_of<float>(p);
    return layout.size() + sizeof(std::int32_t) * layout.padded_filters;
  }
  /// Writes the weights, with zeros as padding, and each filter's sum, which corrects for zero
  /// points.
  template <GpuStream S>
  static void pack_bytes(const convolution_problem& p,
                         const std::int8_t* weights,  // (K, C, R, S)
                         std::int8_t* packed,         // (K', R, S, C'), then (K') in 32 bits
                         S s) {
    const detail::ops::krsc_layout layout = layout_of<float>(p);
    std::int8_t* const no_crsk = nullptr;
    detail::ops::pack_filters(layout, weights, packed, no_crsk, s);
    auto* const sums = reinterpret_cast<std::int32_t*>(packed + layout.size());  // (K')
    s.launch_kernel(layout.padded_filters, detail::ops::filter_sum_kernel{layout, weights, sums});
  }
  /// See ByteEngine (ops/convolution_bytes.hpp); `k` is in device memory.
  /// @throws usage_error if a sum has more than 66,000 terms, or as fprop.
  template <detail::ops::ByteConvolutionInput In, detail::ops::ByteConvolutionOutput Out,
            GpuStream S>
  static void fprop_bytes(const convolution_problem& p, int samples,
                          const In* x,  // (N, H, W, C')
                          const detail::ops::affine_quantizer<float>* k,
                          const std::int8_t* packed,  // (K', R, S, C'), (K') in 32 bits
                          const float* scales,        // (K)
                          Out* y,                     // (N, H_out, W_out, K')
                          S s) {
    fprop_bytes(p, samples, x, k, packed, scales, y, detail::ops::batch_statistics<float>{}, s);
  }
  /// Computes fprop_bytes and the statistics of y, unless they are null.
  template <detail::ops::ByteConvolutionInput In, detail::ops::ByteConvolutionOutput Out,
            class Real, GpuStream S>
  static void fprop_bytes(const convolution_problem& p, int samples,
                          const In* x,  // (N, H, W, C')
                          const detail::ops::affine_quantizer<float>* k,
                          const std::int8_t* packed,  // (K', R, S, C'), (K') in 32 bits
                          const float* scales,        // (K)
                          Out* y,                     // (N, H_out, W_out, K')
                          const detail::ops::batch_statistics<Real>& statistics, S s) {
    detail::ops::check_byte_problem(p, k);
    if constexpr (std::same_as<In, float>) {
      const std::size_t n = static_cast<std::size_t>(samples) *
                            detail::ops::sample_size(p.in, block<float>(p.in.channels));
      const detail::device::stream_buffer<std::uint8_t, S> bytes(s, n);  // (N, H, W, C')
      for_each(s, n, detail::ops::quantize_op{x, k, bytes.data()});
      fprop_bytes<std::uint8_t>(p, samples, bytes.data(), k, packed, scales, y, statistics, s);
    } else {
      const auto* const sums =  // (K')
          reinterpret_cast<const std::int32_t*>(packed + layout_of<float>(p).size());
      const auto g = detail::ops::fprop_gemm<std::uint8_t>(p, samples);
      const detail::ops::byte_sum_epilogue<Out> store{y, sums, k, scales, p.filters};
      const auto launch = [&](const auto& epilogue) {
        detail::ops::launch_correlation(g, x, packed, detail::ops::zero_point_prologue{k}, epilogue,
                                        s);
      };
      if constexpr (std::same_as<Out, float>)
        detail::ops::with_moments(g, store, statistics, s, launch);
      else
        launch(store);
    }
  }

  using byte_gradient = bfloat;  ///< Type of the operands in backward_bytes.
  /// Returns the number of numbers that pack_dequantized writes.
  static std::size_t packed_dequantized_size(const convolution_problem& p) {
    return layout_of<float>(p).size();
  }
  /// Rounds dequantized weights to bf16, in the order that dgrad reads.
  template <GpuStream S>
  static void pack_dequantized(const convolution_problem& p,
                               const float* left,  // (K, C, R, S)
                               bfloat* packed,     // (C', R, S, K')
                               S s) {
    bfloat* const no_krsc = nullptr;
    detail::ops::pack_filters(layout_of<float>(p), left, no_krsc, packed, s);
  }
  /// Computes dw from the dequantized x, and dx by the straight-through estimator, unless they are
  /// null.
  template <class Real, GpuStream S>
  static void backward_bytes(const convolution_problem& p, int samples,
                             const float* x,  // (N, H, W, C')
                             const detail::ops::affine_quantizer<float>* k,
                             const float* dy,       // (N, H_out, W_out, K')
                             const bfloat* packed,  // (C', R, S, K')
                             Real* dw,              // (K, C, R, S)
                             write_mode dw_mode,
                             float* dx,  // (N, H, W, C')
                             write_mode dx_mode, S s) {
    const convolution_problem padded = padded_as_bytes(p);
    const std::size_t in = dw == nullptr ? 0 : static_cast<std::size_t>(samples) * padded.in.size(),
                      out = static_cast<std::size_t>(samples) * padded.out().size();
    const detail::device::stream_buffer<bfloat, S> x_bf16(s, in);    // (N, H, W, C')
    const detail::device::stream_buffer<bfloat, S> dy_bf16(s, out);  // (N, H_out, W_out, K')
    for_each(s, in + out,
             detail::ops::gradient_operands_op{x, k, x_bf16.data(), in, dy, dy_bf16.data()});
    backward_bytes(p, samples, x, k, x_bf16.data(), dy_bf16.data(), packed, dw, dw_mode, dx,
                   dx_mode, s);
  }
  /// Same, on the operands of the products: the dequantized x, from which only dw is computed, and
  /// dy.
  template <class Real, GpuStream S>
  static void backward_bytes(const convolution_problem& p, int samples,
                             const float* x,  // (N, H, W, C')
                             const detail::ops::affine_quantizer<float>* k,
                             const bfloat* x_bf16,   // (N, H, W, C')
                             const bfloat* dy_bf16,  // (N, H_out, W_out, K')
                             const bfloat* packed,   // (C', R, S, K')
                             Real* dw,               // (K, C, R, S)
                             write_mode dw_mode,
                             float* dx,  // (N, H, W, C')
                             write_mode dx_mode, S s) {
    const convolution_problem padded = padded_as_bytes(p);
    const detail::ops::krsc_layout layout = layout_of<float>(p);
    const detail::ops::straight_through_epilogue epilogue{x, k, dx, dx_mode};
    const auto finish = [&](const unpack<Real>* sum) {
      if (dx != nullptr)
        detail::ops::launch_dgrad(padded, samples, dy_bf16, packed, epilogue, sum, s);
      else if (sum != nullptr)
        s.launch_kernel(sum->tile.blocks(), *sum);
    };
    if (dw == nullptr) return finish(nullptr);
    const detail::device::stream_buffer<float, S> partial(  // (splits, K', R, S, C')
        s, detail::ops::plan_splits<bfloat>(padded, samples).splits * layout.size());
    const unpack<Real> sum = detail::ops::launch_weight_gradient(
        layout, padded, samples, x_bf16, dy_bf16, detail::ops::identity_prologue{}, partial.data(),
        dw, dw_mode, s);
    finish(&sum);
  }

 private:
  /// Activations in float are padded as bytes.
  static convolution_problem padded_as_bytes(convolution_problem p) {
    p.in.channels = block<float>(p.in.channels);
    p.filters = block<float>(p.filters);
    return p;
  }

  template <class Real>
  using unpack = detail::ops::unpack_filters_kernel<float, Real>;

  template <class N>
  static detail::ops::krsc_layout layout_of(const convolution_problem& p) {
    return {p, block<N>(p.in.channels), block<N>(p.filters)};
  }
};

namespace detail::ops {
template <>
struct engine_type<engine_name::tensor_core> {
  using type = tensor_core;
};
}  // namespace detail::ops

}  // namespace cordee::inline CORDEE_ABI
