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
//
// 16-bit convolutions take over passes of the batch norms beside them where that is faster
// (fused_places.hpp): statistics of y, the normalization and the ReLU of x, and in backward the
// ReLU and the sums of the batch norm before.
#pragma once

#include <string>
#include <string_view>

#include <cordee/ops/engines/cudnn/fused_places.hpp>
#include <cordee/ops/engines/cudnn/plan_cache.hpp>
#include <cordee/ops/engines/default.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/fused_batch_norm.hpp>
#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>
#include <cordee/ops/gpu/paired_columns.hpp>

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
  /// See ConvolutionEngine.
  static constexpr bool computes_statistics = Settings.fuse_batch_norm,
                        fuses_batch_norm = Settings.fuse_batch_norm;

  /// Returns where batch norm is fused on the current device, and why, for logs: after the first
  /// step, which decides it.
  static std::string describe() {
    return Settings.fuse_batch_norm ? detail::ops::cudnn_fused_places::current().describe_places()
                                    : "batch norm is not fused";
  }
  /// Returns the choices of the current device so far as a table, a line for each: a later run that
  /// is given it by use_choices repeats them and times nothing.
  static std::string choices() { return detail::ops::cudnn_fused_places::current().table(); }
  /// From now on batch norm is fused on the current device where a table of choices() says so.
  /// @throws usage_error for a line without meaning, or after a step that has chosen otherwise; the
  /// first step throws error if cuDNN lacks a plan that the table names.
  static void use_choices(std::string_view table) {
    detail::ops::cudnn_fused_places::current().use_table(table);
  }

  /// Returns the channels, padded to 16 bytes; of images with three or four, where batch norm is
  /// fused in 16 bits, to four, for which cuDNN has plans without statistics.
  template <detail::ops::CudnnType N>
  static constexpr int block(int channels) {
    const bool is_image = channels == 3 || channels == 4;
    return fuses_batch_norm && sizeof(N) == 2 && is_image
               ? 4
               : detail::ops::padded_channels<N>(channels);
  }
  /// Returns the convolution_problem::margin of images that p reads: two where batch norm is fused
  /// in 16 bits and p is a ResNet's stem, whose graph with statistics reads pairs of columns
  /// (ops/gpu/paired_columns.hpp).
  template <detail::ops::CudnnType N>
  static constexpr int image_margin(const convolution_problem& p) {
    const bool is_stem = p.window == 7 && p.stride == 2 && p.padding == 3;
    return sizeof(N) == 2 && is_stem && block<N>(p.in.channels) == 4 && p.in.width % 2 == 0 ? 2 : 0;
  }
  /// Returns the numbers of the weights, channels and filters padded.
  template <detail::ops::CudnnType N>
  static std::size_t packed_size(const convolution_problem& p) {
    return padded<N>(p).weights();
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
  /// Forward pass that also computes the statistics of y, unless they are null. Returns whether
  /// they have coefficients in 16 bits (rounded_coefficients).
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static bool fprop(const convolution_problem& p, int samples,
                    const N* x,       // (N, H, W, C')
                    const N* packed,  // (K', R, S, C')
                    N* y,             // (N, H_out, W_out, K')
                    const detail::ops::batch_statistics<Real>& statistics, S s) {
    const bool wanted = statistics.saved != nullptr && samples > 0;
    if constexpr (sizeof(N) == 2) {
      const int filters = block<N>(p.filters);
      const detail::ops::channel_sums<S> sums(s, wanted ? filters : 0);
      const detail::ops::wide_windows<N, S> windows(p, filters, packed, wanted, s);
      if (wanted && place<N>(
                        detail::ops::fused_graph::conv_stats, p, samples,
                        {writable(x), windows.get(), y, sums.first(), sums.second()}, s, [] {},
                        [&] {
                          fprop(p, samples, x, packed, y, s);
                          const detail::ops::scratch_statistics<Real, S> scratch(statistics, s,
                                                                                 filters);
                          take_statistics(p, samples, y, scratch.get(), s);
                        })) {
        sums.moments(p, samples, statistics, y, s);
        return true;
      }
    }
    fprop(p, samples, x, packed, y, s);
    if (wanted) take_statistics(p, samples, y, statistics, s);
    return false;
  }
  /// The same of an input that may not be stored, and which this stores if it needs it.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static bool fprop_normalized(const convolution_problem& p, int samples,
                               detail::ops::normalized_input<N, Real>& in,
                               const N* packed,  // (K', R, S, C')
                               N* y,             // (N, H_out, W_out, K')
                               const detail::ops::batch_statistics<Real>& statistics, S s) {
    using detail::ops::fused_graph;
    const int channels = block<N>(p.in.channels), filters = block<N>(p.filters);
    const auto lanes = static_cast<std::size_t>(channels);
    const detail::ops::rounded_coefficients<N, Real> rounded(in.norm.saved, lanes),
        other(in.shortcut.x == nullptr ? in.norm.saved : in.shortcut.saved, lanes);
    const detail::ops::channel_sums<S> sums(s, filters);
    N *const x = writable(in.norm.x), *const w = writable(packed);
    using addresses = detail::ops::cudnn_fused_places::addresses;
    const auto run = [&](fused_graph kind, const addresses& data) {
      return place<N>(
          kind, p, samples, data, s, [&] { round_coefficients(in, lanes, s); },
          [&] {
            auto stored = in;
            store_normalized(stored, samples, channels, s);
            const detail::ops::scratch_statistics<Real, S> scratch(statistics, s, filters);
            fprop(p, samples, in.norm.y, packed, y, scratch.get(), s);
          });
    };
    const bool fused =
        !in.adds() ? run(fused_graph::bn_relu_conv_stats,
                         {x, rounded.scale, rounded.bias, w, y, sums.first(), sums.second()})
        : in.shortcut.x == nullptr
            ? run(fused_graph::bn_add_relu_conv_stats,
                  {x, rounded.scale, rounded.bias, writable(in.residual), in.norm.y, w, y,
                   sums.first(), sums.second()})
            : run(fused_graph::dual_bn_relu_conv_stats,
                  {x, rounded.scale, rounded.bias, writable(in.shortcut.x), other.scale, other.bias,
                   in.norm.y, w, y, sums.first(), sums.second()});
    if (!fused) {
      store_normalized(in, samples, channels, s);
      return fprop(p, samples, in.norm.y, packed, y, statistics, s);
    }
    in.is_stored = in.adds();
    if (statistics.saved != nullptr) sums.moments(p, samples, statistics, y, s);
    return true;
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
  /// wgrad of an input that may not be stored, and which this stores if it needs it.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static void wgrad_normalized(const convolution_problem& p, int samples,
                               detail::ops::normalized_input<N, Real>& in,
                               const N* dy,  // (N, H_out, W_out, K')
                               Real* dw,     // (K, C, R, S)
                               write_mode mode,
                               N* workspace,  // (K', R, S, C')
                               S s) {
    wgrad_packed_normalized(p, samples, in, dy, workspace, s);
    unpack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), workspace, dw, mode, s);
  }
  /// wgrad_packed of such an input.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static void wgrad_packed_normalized(const convolution_problem& p, int samples,
                                      detail::ops::normalized_input<N, Real>& in,
                                      const N* dy,   // (N, H_out, W_out, K')
                                      N* packed_dw,  // (K', R, S, C')
                                      S s) {
    const int channels = block<N>(p.in.channels);
    const detail::ops::rounded_coefficients<N, Real> rounded(in.norm.saved,
                                                             static_cast<std::size_t>(channels));
    if (!in.is_stored &&
        place<N>(
            detail::ops::fused_graph::bn_relu_wgrad, p, samples,
            {writable(in.norm.x), rounded.scale, rounded.bias, writable(dy), packed_dw}, s, [] {},
            [&] {
              auto stored = in;
              store_normalized(stored, samples, channels, s);
              wgrad_packed(p, samples, in.norm.y, dy, packed_dw, s);
            }))
      return;
    store_normalized(in, samples, channels, s);
    wgrad_packed(p, samples, in.norm.y, dy, packed_dw, s);
  }
  /// dx of an input of batch norm, whose gradient pass comes next. Returns whether dx is masked by
  /// the ReLU, and its sums are in the saved rows `shift` and `slope`
  /// (batch_norm_backward_of_sums).
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static bool dgrad_normalized(const convolution_problem& p, int samples,
                               const N* dy,      // (N, H_out, W_out, K')
                               const N* packed,  // (K', R, S, C')
                               const detail::ops::normalized_input<N, Real>& in,
                               N* dx,  // (N, H, W, C')
                               S s) {
    const auto lanes = static_cast<std::size_t>(block<N>(p.in.channels));
    const detail::ops::batch_norm_coefficients<Real> row(in.norm.saved, lanes, 0);
    const detail::device::stream_buffer<float, S> factors(s, 3 * lanes);  // of dx; not used
    const bool fused = place<N>(
        detail::ops::fused_graph::dgrad_relu_bn, p, samples,
        {writable(dy), writable(packed), writable(in.norm.x), row.mean, row.inv_std,
         writable(in.norm.gamma), writable(in.norm.beta), dx, row.slope, row.shift, factors.data(),
         factors.data() + lanes, factors.data() + 2 * lanes},
        s, [] {},
        [&] {
          dgrad(p, samples, dy, packed, dx, write_mode::overwrite, s);
          detail::ops::sum_gradients<detail::ops::epilogue::relu>(in.problem, in.norm, samples,
                                                                  lanes, dx, s);
        });
    if (!fused) dgrad(p, samples, dy, packed, dx, write_mode::overwrite, s);
    return fused;
  }
  /// Whether the same may be done at the end of a residual block, or of x at the maxima of a pool,
  /// with another gradient added.
  template <detail::ops::CudnnType N, class Real>
  static bool may_add_and_sum(const convolution_problem& p, int samples,
                              const detail::ops::normalized_input<N, Real>& in) {
    return !detail::ops::cudnn_fused_places::current().is_plain(
        place_of<N>(detail::ops::sum_graph(in), p, samples));
  }
  /// dx plus `other`, which is other memory, as dgrad_normalized. Nothing is written if it returns
  /// false.
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static bool dgrad_added(const convolution_problem& p, int samples,
                          const N* dy,      // (N, H_out, W_out, K')
                          const N* packed,  // (K', R, S, C')
                          const detail::ops::normalized_input<N, Real>& in, const N* other,
                          N* dx,  // (N, H, W, C')
                          S s) {
    const auto lanes = static_cast<std::size_t>(block<N>(p.in.channels));
    const detail::device::stream_buffer<float, S> factors(s, 6 * lanes);  // of dx; not used
    return place<N>(
        detail::ops::sum_graph(in), p, samples,
        detail::ops::sum_addresses(dy, packed, in, other, dx, factors.data(), lanes), s, [] {},
        [&] {  // added to what is in dx: for its time alone
          using namespace detail::ops;
          dgrad(p, samples, dy, packed, dx, write_mode::add, s);
          if (in.adds())
            sum_gradients<epilogue::add_relu>(in.problem, in.norm, samples, lanes, dx, s);
          else
            sum_gradients<epilogue::relu>(in.problem, in.norm, samples, lanes, dx, s);
          if (in.shortcut.x != nullptr)
            sum_gradients<epilogue::store>(in.problem, in.shortcut, samples, lanes, dx, s);
        });
  }
  /// A batch norm that cannot be fused with what is beside it, or one that is fused with a pool,
  /// for describe().
  template <class What>
  static void note(What what) {
    detail::ops::cudnn_fused_places::current().note(what);
  }

 private:
  /// With channels and filters padded as in memory.
  template <class N>
  static constexpr convolution_problem padded(convolution_problem p) {
    p.in.channels = block<N>(p.in.channels);
    p.filters = block<N>(p.filters);
    return p;
  }
  template <class T>
  static T* writable(const T* data) {
    return const_cast<T*>(data);
  }
  template <detail::ops::CudnnType N, class Real, GpuStream S>
  static void take_statistics(const convolution_problem& p, int samples, const N* y,
                              const detail::ops::batch_statistics<Real>& to, S s) {
    const int filters = block<N>(p.filters);
    const detail::ops::batch_norm_problem norm{p.out()};
    const detail::ops::batch_norm_tensors<N, Real> t{y,       nullptr,  to.gamma,
                                                     to.beta, to.saved, nullptr};
    detail::ops::with_vector_size<N>(filters, [&](auto size) {
      detail::ops::take_statistics<size()>(norm, filters, samples, t, to.running_mean,
                                           to.running_variance, {}, s);
    });
  }
  template <class N>
  static detail::ops::cudnn_place place_of(detail::ops::fused_graph kind,
                                           const convolution_problem& p, int samples) {
    return {kind, padded<N>(p), samples, detail::ops::cudnn_data_type<N>, Settings};
  }
  template <class N, GpuStream S, class Prepare, class Plain>
  static bool place(detail::ops::fused_graph kind, const convolution_problem& p, int samples,
                    const detail::ops::cudnn_fused_places::addresses& data, S s,
                    const Prepare& prepare, const Plain& plain) {
    return detail::ops::cudnn_fused_places::current().run(place_of<N>(kind, p, samples), data, s,
                                                          prepare, plain);
  }

  /// The pass determines which of x (N, H, W, C'), w (K', R, S, C') and y (N, H_out, W_out, K') is
  /// written.
  template <class N, GpuStream S>
  static void run(const convolution_problem& p, int samples, detail::ops::convolution_pass pass,
                  write_mode mode, const N* x, const N* w, const N* y, S s) {
    if (samples == 0) return;
    using detail::ops::convolution_pass;
    expects(p.margin == 0 || pass != convolution_pass::dgrad,
            "cudnn: images by pairs of columns have no gradient");
    const bool reads = pass != convolution_pass::wgrad;
    const detail::ops::wide_windows<N, S> windows(p, block<N>(p.filters), w, reads, s);
    detail::ops::cudnn_plan_cache::current().execute(
        {padded<N>(p), samples, pass, detail::ops::cudnn_data_type<N>, mode == write_mode::add,
         Settings},
        {writable(x), windows.get(), writable(y)}, s);
    if (!reads) windows.narrow(s);
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
