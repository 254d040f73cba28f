// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by oneDNN, in fp32: ops/convolution.hpp's sums over (N, C / V, H, W, V), oneDNN's
// nChw16c on AVX-512 and nChw8c elsewhere. For benchmarks, to compare with.
//
// A batch is cut into groups, independently of the number of workers, and the stream's workers run
// each group as a primitive of one thread. So oneDNN starts no threads, and results do not depend
// on the workers. Primitives are built once per problem and group size, and cached.
#pragma once

#include <algorithm>
#include <exception>
#include <mutex>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#include <cordee/core/error.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>
#include <cordee/ops/layout.hpp>

#include "benchmarks/onednn/pass.hpp"

namespace cordee::inline CORDEE_ABI {

namespace detail::ops {

/// V is a template argument so that object files built for different ISAs define different symbols.
template <int V>
struct onednn_with {
  static constexpr std::string_view name = "onednn";  ///< See ConvolutionEngine.

  /// Few channels are plain NCHW: oneDNN's layout for a first layer.
  template <class Real>
  static constexpr int block(int channels) {
    return channels <= 4 ? 1 : V;
  }
  /// Packed weights of fprop, then those of dgrad.
  template <std::same_as<float> Real>
  static std::size_t packed_size(const convolution_problem& p) {
    std::size_t size = 0;
    with_error_context(p, [&] { size = get(pass::fprop, p).size() + get(pass::dgrad, p).size(); });
    return size;
  }
  /// See ConvolutionEngine.
  template <std::same_as<float> Real>
  static void pack(const convolution_problem& p,
                   const Real* master,  // (K, C, R, S)
                   Real* packed,        // (K, C, R, S) twice, in oneDNN's layouts
                   cpu::stream s) {
    with_error_context(p, [&] {
      parallel_parts(s, 2, [&](std::size_t part) {
        if (part == 0) get(pass::fprop, p).reorder(master, packed);
        if (part == 1) get(pass::dgrad, p).reorder(master, packed + get(pass::fprop, p).size());
      });
    });
  }

  /// See ConvolutionEngine.
  /// @throws error, as do all functions, that describes the problem, if oneDNN fails.
  template <std::same_as<float> Real>
  static void fprop(const convolution_problem& p, int samples,
                    const Real* x,       // (N, C / V, H, W, V)
                    const Real* packed,  // (K, C, R, S) twice, in oneDNN's layouts
                    Real* y,             // (N, K / V, I, J, V)
                    cpu::stream s) {
    with_error_context(p, [&] {
      const auto w = get(pass::fprop, p).weight_memory(packed);
      parallel_groups(p, samples, s, [&](std::size_t, int first, int n) {
        get(pass::fprop, p, n).run(x + first * numbers(p.in), w, y + first * numbers(p.out()));
      });
    });
  }
  /// See ConvolutionEngine.
  template <std::same_as<float> Real>
  static void dgrad(const convolution_problem& p, int samples,
                    const Real* dy,      // (N, K / V, I, J, V)
                    const Real* packed,  // (K, C, R, S) twice, in oneDNN's layouts
                    Real* dx,            // (N, C / V, H, W, V)
                    write_mode mode, cpu::stream s) {
    with_error_context(p, [&] {
      const auto w = get(pass::dgrad, p).weight_memory(packed + get(pass::fprop, p).size());
      parallel_groups(p, samples, s, [&](std::size_t, int first, int n) {
        thread_local scratch<float> gradient;  // (n, C / V, H, W, V)
        const auto size = static_cast<std::size_t>(n * numbers(p.in));
        Real* const to = dx + first * numbers(p.in);
        Real* const result = mode == write_mode::add ? gradient.reserve(size) : to;
        get(pass::dgrad, p, n).run(result, w, dy + first * numbers(p.out()));
        if (mode == write_mode::add)
          for (std::size_t i = 0; i < size; ++i) to[i] += result[i];
      });
    });
  }

  /// Returns the memory for the gradient of each group.
  template <std::same_as<float> Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream) {
    std::size_t size = 0;
    with_error_context(p, [&] { size = groups(p, samples) * get(pass::wgrad, p).size(); });
    return size;
  }
  /// Computes the gradient of each group, adds them in order, then the sum to dw.
  template <std::same_as<float> Real>
  static void wgrad(const convolution_problem& p, int samples,
                    const Real* x,   // (N, C / V, H, W, V)
                    const Real* dy,  // (N, K / V, I, J, V)
                    Real* dw,        // (K, C, R, S)
                    write_mode mode,
                    Real* sums,  // (groups, K, C, R, S), in oneDNN's layout
                    cpu::stream s) {
    with_error_context(p, [&] {
      if (mode == write_mode::overwrite) std::fill_n(dw, p.weights(), Real{});
      if (samples == 0) return;
      const std::size_t size = get(pass::wgrad, p).size(), parts = groups(p, samples);
      parallel_groups(p, samples, s, [&](std::size_t part, int first, int n) {
        const auto& wgrad_pass = get(pass::wgrad, p, n);
        wgrad_pass.run(x + first * numbers(p.in), wgrad_pass.weight_memory(sums + part * size),
                       dy + first * numbers(p.out()));
      });
      device::parallel_chunks(s, size, 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t part = 1; part < parts; ++part)
          for (std::size_t i = begin; i < end; ++i) sums[i] += sums[part * size + i];
      });
      get(pass::wgrad, p).reorder(sums, dw);
    });
  }

 private:
  using pass = onednn_pass<V>;

  static const pass& get(typename pass::direction d, const convolution_problem& p,
                         int samples = 1) {
    return pass::get(d, p, samples);
  }
  /// Numbers of one sample.
  static std::ptrdiff_t numbers(const extent& e) {
    return static_cast<std::ptrdiff_t>(sample_size(e, block<float>(e.channels)));
  }
  /// Calls f with oneDNN on the calling thread alone. Throws cordee::error, with the problem's
  /// description, where oneDNN throws.
  template <class F>
  static void with_error_context(const convolution_problem& p, const F& f) {
    const single_thread_scope single_thread;
    try {
      f();
    } catch (const dnnl::error& e) {
      throw error(concat("onednn: ", e.what(), " (", dnnl_status2str(e.status),
                         "): ", describe(p.in), " -> ", p.filters, ", window ", p.window,
                         ", stride ", p.stride, ", padding ", p.padding));
    }
  }
  /// Calls f(part) on the stream's workers, which must not throw: rethrows the first exception on
  /// the calling thread.
  template <class F>
  static void parallel_parts(cpu::stream s, std::size_t parts, const F& f) {
    std::mutex mutex;
    std::exception_ptr failure;
    device::parallel_chunks(s, parts, 1, [&](std::size_t first, std::size_t last) {
      const single_thread_scope single_thread;
      try {
        for (std::size_t part = first; part < last; ++part) f(part);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
    if (failure) std::rethrow_exception(failure);
  }

  /// Sixteen, or fewer where adding a group's weight gradient would cost as much as computing it.
  static std::size_t groups(const convolution_problem& p, int samples) {
    const std::size_t pixels = static_cast<std::size_t>(samples) * p.out().pixels();
    return std::min(static_cast<std::size_t>(samples),
                    std::clamp<std::size_t>(pixels / 1024, 4, 16));
  }
  /// Calls f(group, first sample, samples) on the stream's workers.
  template <class F>
  static void parallel_groups(const convolution_problem& p, int samples, cpu::stream s,
                              const F& f) {
    const std::size_t parts = groups(p, samples), total = static_cast<std::size_t>(samples);
    parallel_parts(s, parts, [&](std::size_t part) {
      const std::size_t first = total * part / parts, end = total * (part + 1) / parts;
      f(part, static_cast<int>(first), static_cast<int>(end - first));
    });
  }
};

}  // namespace detail::ops

/// The engine for this build's ISA. oneDNN itself chooses instructions by the processor it runs on.
using onednn = detail::ops::onednn_with<std::max(8, detail::ops::lanes<float>)>;
static_assert(ConvolutionEngine<onednn, float> && !ConvolutionEngine<onednn, double>);

}  // namespace cordee::inline CORDEE_ABI
