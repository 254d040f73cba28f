// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by oneDNN: ops/convolution.hpp's sums over (N, C / V, H, W, V), which it calls
// nChw16c on AVX-512 and nChw8c elsewhere. In fp32; component `onednn`, not in the umbrella.
//
// A batch is cut into groups by a rule that knows no workers, and the stream's workers run each as
// a primitive of one thread. So oneDNN starts no threads, and results do not depend on how many
// there are. Primitives are built once for a problem and a group's size, and stay.
#pragma once

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <mutex>
#include <type_traits>

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#include <cordee/core/error.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/layout.hpp>

#if DNNL_VERSION_MAJOR != 2 || DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP
#error "engine onednn is written for oneDNN 2 on OpenMP, Debian 12's libdnnl-dev"
#endif

// Of <omp.h>, which clang has only beside a runtime of its own: the one to talk to is oneDNN's.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// While it lives, what oneDNN builds and runs in this thread is this thread's work alone.
class openmp_alone {
 public:
  openmp_alone() { omp_set_num_threads(1); }
  openmp_alone(const openmp_alone&) = delete;
  ~openmp_alone() { omp_set_num_threads(before_); }

 private:
  const int before_ = omp_get_max_threads();
};

/// One direction of a problem over so many samples, ready to run: several threads may at once.
template <int V>
class onednn_pass {
  using desc = dnnl::memory::desc;
  using tag = dnnl::memory::format_tag;

 public:
  enum direction { fprop, dgrad, wgrad };

  /// The one there is, built if need be.
  static const onednn_pass& of(direction d, const convolution_problem& p, int samples) {
    static std::mutex mutex;
    static std::map<std::array<int, 9>, onednn_pass> known;
    // The image of the weights knows no number of samples: they lie as one sample has them best.
    const desc w = samples == 1 ? weights(p, tag::any) : of(d, p, 1).w_;
    const std::lock_guard lock(mutex);
    return known
        .try_emplace({d, p.in.channels, p.in.height, p.in.width, p.filters, p.window, p.stride,
                      p.padding, samples},
                     d, p, samples, w)
        .first->second;
  }

  onednn_pass(direction d, const convolution_problem& p, int samples, const desc& w)
      : x_(activations(p.in, samples)), y_(activations(p.out(), samples)) {
    constexpr auto method = dnnl::algorithm::convolution_direct;
    constexpr auto training = dnnl::prop_kind::forward_training;
    const dnnl::memory::dims stride{p.stride, p.stride}, pad{p.padding, p.padding};
    dnnl::primitive_attr mode;  // with scratch of its own, a primitive is bound to one thread
    mode.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc hint(
        {training, method, x_, weights(p, tag::any), y_, stride, pad, pad}, mode, engine());
    if (d == fprop) {
      arguments_ = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
      build<dnnl::convolution_forward>(mode, {training, method, x_, w, y_, stride, pad, pad});
    } else if (d == dgrad) {
      arguments_ = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
      build<dnnl::convolution_backward_data>(mode, {method, x_, w, y_, stride, pad, pad}, hint);
    } else {
      arguments_ = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
      build<dnnl::convolution_backward_weights>(mode, {method, x_, w, y_, stride, pad, pad}, hint);
    }
    dnnl::post_ops onto;
    if (d == wgrad) onto.append_sum();
    mode.set_post_ops(onto);
    from_ = d == wgrad ? w_ : weights(p, tag::oihw);
    to_ = d == wgrad ? weights(p, tag::oihw) : w_;
    reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from_, engine(), to_, mode));
  }

  /// Numbers of its weights, in whole lines of the cache.
  [[nodiscard]] std::size_t size() const { return (w_.get_size() + 63) / 64 * 16; }

  /// Where weights are: to make it writes the zeros that fill its blocks, to use it does not.
  [[nodiscard]] dnnl::memory at(const float* w) const { return memory(w_, w); }

  void run(const float* x, const dnnl::memory& w, const float* y) const {
    thread_local scratch<float> room;
    convolve_.execute(stream(),
                      {{arguments_[0], memory(x_, x)},
                       {arguments_[1], w},
                       {arguments_[2], memory(y_, y)},
                       {DNNL_ARG_SCRATCHPAD,
                        memory(scratch_, room.reserve(scratch_.get_size() / sizeof(float)))}});
  }
  /// fprop, dgrad: canonical weights to its own; wgrad: its own onto canonical ones.
  void reorder(const float* from, float* to) const {
    reorder_.execute(stream(),
                     {{DNNL_ARG_FROM, memory(from_, from)}, {DNNL_ARG_TO, memory(to_, to)}});
  }

 private:
  template <class C, class... Hint>
  void build(const dnnl::primitive_attr& mode, const typename C::desc& wanted,
             const Hint&... hint) {
    const typename C::primitive_desc built(wanted, mode, engine(), hint...);
    constexpr bool writes_weights = std::is_same_v<C, dnnl::convolution_backward_weights>;
    w_ = built.query_md(writes_weights ? dnnl::query::diff_weights_md : dnnl::query::weights_md);
    scratch_ = built.scratchpad_desc();
    convolve_ = C(built);
  }
  static const dnnl::engine& engine() {
    static const dnnl::engine host(dnnl::engine::kind::cpu, 0);
    return host;
  }
  static const dnnl::stream& stream() {
    thread_local const dnnl::stream mine(engine());
    return mine;
  }
  static dnnl::memory memory(const desc& what, const float* where) {
    return {what, engine(), const_cast<float*>(where)};  // it knows no memory that is only read
  }
  static desc weights(const convolution_problem& p, tag t) {
    return {{p.filters, p.in.channels, p.window, p.window}, dnnl::memory::data_type::f32, t};
  }
  static desc activations(const extent& e, int samples) {
    return {{samples, e.channels, e.height, e.width},
            dnnl::memory::data_type::f32,
            e.channels <= 4 ? tag::nchw
            : V == 16       ? tag::nChw16c
                            : tag::nChw8c};
  }

  desc x_, y_, w_, scratch_, from_, to_;
  std::array<int, 3> arguments_{};
  dnnl::primitive convolve_;
  dnnl::reorder reorder_;
};

}  // namespace detail

/// V is a template argument so that objects built for different ISAs keep apart by name.
template <int V>
struct onednn_with {
  static constexpr std::string_view name = "onednn";

  /// An image of few channels is plain, as oneDNN wants the first layer's.
  template <class Real>
  static constexpr int block(int channels) {
    return channels <= 4 ? 1 : V;
  }
  /// The weights lie there twice, for fprop and for dgrad.
  template <std::same_as<float> Real>
  static std::size_t packed_size(const convolution_problem& p) {
    std::size_t size = 0;
    guarded(p, [&] { size = of(pass::fprop, p).size() + of(pass::dgrad, p).size(); });
    return size;
  }
  template <std::same_as<float> Real>
  static void pack(const convolution_problem& p, const Real* master, Real* packed, cpu::stream s) {
    guarded(p, [&] {
      in_parts(s, 2, [&](std::size_t part) {
        if (part == 0) of(pass::fprop, p).reorder(master, packed);
        if (part == 1) of(pass::dgrad, p).reorder(master, packed + of(pass::fprop, p).size());
      });
    });
  }

  template <std::same_as<float> Real>
  static void fprop(const convolution_problem& p, int samples, const Real* x, const Real* packed,
                    Real* y, cpu::stream s) {
    guarded(p, [&] {
      const auto w = of(pass::fprop, p).at(packed);
      in_groups(p, samples, s, [&](std::size_t, int first, int n) {
        of(pass::fprop, p, n).run(x + first * numbers(p.in), w, y + first * numbers(p.out()));
      });
    });
  }
  template <std::same_as<float> Real>
  static void dgrad(const convolution_problem& p, int samples, const Real* dy, const Real* packed,
                    Real* dx, into how, cpu::stream s) {
    guarded(p, [&] {
      const auto w = of(pass::dgrad, p).at(packed + of(pass::fprop, p).size());
      in_groups(p, samples, s, [&](std::size_t, int first, int n) {
        thread_local detail::scratch<float> room;
        const auto size = static_cast<std::size_t>(n * numbers(p.in));
        Real* const to = dx + first * numbers(p.in);
        Real* const found = how == into::add ? room.reserve(size) : to;
        of(pass::dgrad, p, n).run(found, w, dy + first * numbers(p.out()));
        if (how == into::add)
          for (std::size_t i = 0; i < size; ++i) to[i] += found[i];
      });
    });
  }

  template <std::same_as<float> Real>
  static std::size_t workspace(const convolution_problem& p, int samples, cpu::stream) {
    std::size_t size = 0;
    guarded(p, [&] { size = groups(p, samples) * of(pass::wgrad, p).size(); });
    return size;
  }
  template <std::same_as<float> Real>
  static void wgrad(const convolution_problem& p, int samples, const Real* x, const Real* dy,
                    Real* dw, into how, Real* sums, cpu::stream s) {
    guarded(p, [&] {
      if (how == into::overwrite) std::fill_n(dw, p.weights(), Real{});
      if (samples == 0) return;
      const std::size_t size = of(pass::wgrad, p).size(), parts = groups(p, samples);
      in_groups(p, samples, s, [&](std::size_t part, int first, int n) {
        const auto& one = of(pass::wgrad, p, n);
        one.run(x + first * numbers(p.in), one.at(sums + part * size),
                dy + first * numbers(p.out()));
      });
      parallel(s, size, 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t part = 1; part < parts; ++part)
          for (std::size_t i = begin; i < end; ++i) sums[i] += sums[part * size + i];
      });
      of(pass::wgrad, p).reorder(sums, dw);
    });
  }

 private:
  using pass = detail::onednn_pass<V>;

  static const pass& of(typename pass::direction d, const convolution_problem& p, int samples = 1) {
    return pass::of(d, p, samples);
  }
  /// Numbers of one sample.
  static std::ptrdiff_t numbers(const extent& e) {
    return static_cast<std::ptrdiff_t>(sample_size(e, block<float>(e.channels)));
  }
  /// What goes wrong in oneDNN is told with the problem's name. In this thread it stays alone.
  template <class F>
  static void guarded(const convolution_problem& p, const F& f) {
    const detail::openmp_alone only;
    try {
      f();
    } catch (const dnnl::error& e) {
      throw error(text("onednn: ", e.what(), " (", dnnl_status2str(e.status), "): ", to_text(p.in),
                       " -> ", p.filters, ", window ", p.window, ", stride ", p.stride,
                       ", padding ", p.padding));
    }
  }
  /// f(part) on the stream's workers, which may not throw: the first complaint is thrown here.
  template <class F>
  static void in_parts(cpu::stream s, std::size_t parts, const F& f) {
    std::mutex mutex;
    std::exception_ptr complaint;
    parallel(s, parts, 1, [&](std::size_t first, std::size_t last) {
      const detail::openmp_alone only;
      try {
        for (std::size_t part = first; part < last; ++part) f(part);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!complaint) complaint = std::current_exception();
      }
    });
    if (complaint) std::rethrow_exception(complaint);
  }

  /// Sixteen, or fewer where a group's sum of weight gradients would cost as much as its products.
  static std::size_t groups(const convolution_problem& p, int samples) {
    const std::size_t all = static_cast<std::size_t>(samples) * p.out().pixels();
    return std::min(static_cast<std::size_t>(samples), std::clamp<std::size_t>(all / 1024, 4, 16));
  }
  /// f(part, first sample, samples)
  template <class F>
  static void in_groups(const convolution_problem& p, int samples, cpu::stream s, const F& f) {
    const std::size_t parts = groups(p, samples), all = static_cast<std::size_t>(samples);
    in_parts(s, parts, [&](std::size_t part) {
      const std::size_t first = all * part / parts, end = all * (part + 1) / parts;
      f(part, static_cast<int>(first), static_cast<int>(end - first));
    });
  }
};

/// The engine for the ISA of this build. oneDNN itself looks at the processor that it runs on.
using onednn = onednn_with<std::max(8, lanes<float>)>;
static_assert(ConvolutionEngine<onednn, float> && !ConvolutionEngine<onednn, double>);

}  // namespace cordee::inline CORDEE_ABI
