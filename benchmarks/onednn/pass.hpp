// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One direction of a convolution as a oneDNN primitive of one thread.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <type_traits>

#include <oneapi/dnnl/dnnl.hpp>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/tiles/scratch.hpp>

#if DNNL_VERSION_MAJOR != 2 || DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP
#error "engine onednn needs oneDNN 2 built with OpenMP, such as Debian 12's libdnnl-dev"
#endif

// As in <omp.h>, which clang has only with its own runtime; these must be of oneDNN's runtime.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

namespace cordee::inline CORDEE_ABI::detail::ops {

/// During its lifetime oneDNN builds and runs primitives on the calling thread alone.
class single_thread_scope {
 public:
  single_thread_scope() { omp_set_num_threads(1); }
  single_thread_scope(const single_thread_scope&) = delete;
  ~single_thread_scope() { omp_set_num_threads(before_); }

 private:
  const int before_ = omp_get_max_threads();
};

/// The primitive of one direction of a problem for so many samples. Safe to run from several
/// threads at once.
template <int V>
class onednn_pass {
  using desc = dnnl::memory::desc;
  using tag = dnnl::memory::format_tag;

 public:
  enum direction { fprop, dgrad, wgrad };

  /// The cached pass; builds it in the first call.
  static const onednn_pass& get(direction d, const convolution_problem& p, int samples) {
    static std::mutex mutex;
    static std::map<std::array<int, 9>, onednn_pass> cache;
    // Packed weights serve any number of samples: their layout is the best for one sample.
    const desc w = samples == 1 ? weights(p, tag::any) : get(d, p, 1).w_;
    const std::lock_guard lock(mutex);
    return cache
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
    dnnl::primitive_attr attr;  // a primitive with its own scratchpad is bound to one thread
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::primitive_desc hint(
        {training, method, x_, weights(p, tag::any), y_, stride, pad, pad}, attr, engine());
    if (d == fprop) {
      arguments_ = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
      build<dnnl::convolution_forward>(attr, {training, method, x_, w, y_, stride, pad, pad});
    } else if (d == dgrad) {
      arguments_ = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
      build<dnnl::convolution_backward_data>(attr, {method, x_, w, y_, stride, pad, pad}, hint);
    } else {
      arguments_ = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
      build<dnnl::convolution_backward_weights>(attr, {method, x_, w, y_, stride, pad, pad}, hint);
    }
    dnnl::post_ops post_ops;
    if (d == wgrad) post_ops.append_sum();
    attr.set_post_ops(post_ops);
    from_ = d == wgrad ? w_ : weights(p, tag::oihw);
    to_ = d == wgrad ? weights(p, tag::oihw) : w_;
    reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from_, engine(), to_, attr));
  }

  /// Numbers of its weights, rounded up to whole cache lines.
  [[nodiscard]] std::size_t size() const { return (w_.get_size() + 63) / 64 * 16; }

  /// A oneDNN memory object of packed weights. Its constructor writes zeros to the padding of
  /// blocks, so one that workers share is constructed before they start.
  [[nodiscard]] dnnl::memory weight_memory(const float* w) const { return memory(w_, w); }

  void run(const float* x, const dnnl::memory& w, const float* y) const {
    thread_local scratch<float> scratchpad;
    convolve_.execute(
        stream(), {{arguments_[0], memory(x_, x)},
                   {arguments_[1], w},
                   {arguments_[2], memory(y_, y)},
                   {DNNL_ARG_SCRATCHPAD,
                    memory(scratch_, scratchpad.reserve(scratch_.get_size() / sizeof(float)))}});
  }
  /// fprop, dgrad: to <- canonical weights, packed. wgrad: to <- to + packed gradients, canonical.
  void reorder(const float* from, float* to) const {
    reorder_.execute(stream(),
                     {{DNNL_ARG_FROM, memory(from_, from)}, {DNNL_ARG_TO, memory(to_, to)}});
  }

 private:
  template <class C, class... Hint>
  void build(const dnnl::primitive_attr& attr, const typename C::desc& description,
             const Hint&... hint) {
    const typename C::primitive_desc built(description, attr, engine(), hint...);
    constexpr bool writes_weights = std::is_same_v<C, dnnl::convolution_backward_weights>;
    w_ = built.query_md(writes_weights ? dnnl::query::diff_weights_md : dnnl::query::weights_md);
    scratch_ = built.scratchpad_desc();
    convolve_ = C(built);
  }
  static const dnnl::engine& engine() {
    static const dnnl::engine cpu_engine(dnnl::engine::kind::cpu, 0);
    return cpu_engine;
  }
  static const dnnl::stream& stream() {
    thread_local const dnnl::stream thread_stream(engine());
    return thread_stream;
  }
  static dnnl::memory memory(const desc& description, const float* data) {
    return {description, engine(), const_cast<float*>(data)};  // it has no type for const memory
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

  desc x_, y_;      // (samples, C, H, W), (samples, K, I, J)
  desc w_;          // (K, C, R, S), in oneDNN's layout
  desc scratch_;    // bytes
  desc from_, to_;  // of reorder_
  std::array<int, 3> arguments_{};
  dnnl::primitive convolve_;
  dnnl::reorder reorder_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
