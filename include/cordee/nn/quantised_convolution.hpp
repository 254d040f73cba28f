// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A convolution whose operands are bytes (Jacob et al., 2018).
//
//   forward    y = s_x s_w (w_q * (x_q - z))                         in integers, scaled once
//   backward   dw = wgrad(x', dy),  dx = dgrad(dy, w') where x was not clipped, 0 elsewhere
//
// x' and w' are what quantisation leaves of x and w. Weights are quantised as they are published,
// each filter by its largest; the input by the range it had so far, which training moves. Training
// before there is one takes the batch's own; evaluation refuses, by the layer's name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/convolution_bytes.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B>
class quantised_convolution_node {
  using number = typename B::number;
  using engine = typename B::engine;
  static constexpr bool on_host = B::device::host_memory;
  using scaling = std::conditional_t<on_host, affine<float>, affine<float>*>;
  static_assert(ByteEngine<engine, typename B::stream>,
                "this engine does not convolve bytes: use direct or reference, on a GPU wmma");
  // What gradients are products of: the engine's kind of number, or activations'.
  struct as_activations {
    using byte_gradient = number;
  };
  using gradient =
      typename std::conditional_t<ByteGradients<engine>, engine, as_activations>::byte_gradient;

 public:
  [[gnu::cold, gnu::noinline]] quantised_convolution_node(const convolution_problem& problem,
                                                          placement& to)
      : problem_(problem),
        segment_(to.next++),
        weights_(to.table[segment_].offset),
        low_(to.table[to.statistic].offset),
        high_(to.table[to.statistic + 1].offset),
        name_(to.table[segment_].name),
        watched_(to.quantised++),
        image_(to.template take_image<gradient>(packed_left(problem))),
        bytes_(to.template take_image<std::int8_t>(engine::packed_bytes(problem))),
        scales_(to.template take_image<float>(static_cast<std::size_t>(problem.filters))),
        activation_(to.activation++) {
    to.statistic += 2;
    name_.remove_suffix(std::string_view(".weight").size());
    to.meet(std::max(B::numbers(problem.in), B::numbers(problem.out())));
  }

  void publish(const publish_pass<B>& pass) const {
    const std::size_t size = problem_.weights(), filters = size_of(problem_.filters);
    const auto publish = [&](std::int8_t* q, number* left) {
      quantise_filters(filters, size / filters, pass.plane + weights_, q, left,
                       pass.template at<float>(scales_), pass.s);
      engine::pack_bytes(problem_, q, pass.template at<std::int8_t>(bytes_), pass.s);
      auto* const image = pass.template at<gradient>(image_);
      if constexpr (ByteGradients<engine>)
        engine::pack_left(problem_, left, image, pass.s);
      else
        engine{}.template pack<number>(problem_, left, image, pass.s);
    };
    if constexpr (on_host) {
      thread_local std::vector<std::int8_t> q;  // of every layer and step
      thread_local std::vector<number> left;
      q.resize(std::max(q.size(), size));
      left.resize(q.size());
      publish(q.data(), left.data());
    } else {
      const lent<std::int8_t, typename B::stream> q(pass.s, size);
      const lent<number, typename B::stream> left(pass.s, size);
      publish(q.data(), left.data());
    }
  }

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, B::numbers(problem_.out()));
    x_ = x;
    if constexpr (on_host) {
      if (pass.quantisation->watch.how != quantisation_watch::runs::quantised) {
        run_in_full(pass, x, y);
        return y;
      }
      k_ = range(pass, x);
    } else {
      k_ = range_there(pass, x);
    }
    fprop(pass, x, y);
    return y;
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    if constexpr (ByteGradients<engine>) {
      const bool adds = to.onto != nullptr;
      number* const dx = !to.wanted ? nullptr : adds ? to.onto : pass.gradients->take();
      engine::backward_bytes(problem_, pass.samples, x_, k_, dy, pass.template at<gradient>(image_),
                             pass.plane + weights_, pass.mode, dx,
                             adds ? into::add : into::overwrite, pass.s);
      pass.gradients->give(dy);
      ready(segment_);
      return dx;
    } else {
      return backward_as_activations(pass, dy, to, ready);
    }
  }

 private:
  static std::size_t packed_left(const convolution_problem& p) {
    if constexpr (ByteGradients<engine>)
      return engine::packed_left(p);
    else
      return engine{}.template packed_size<number>(p);
  }

  template <class Ready>
  number* backward_as_activations(const backward_pass<B>& pass, number* dy, destination<number> to,
                                  Ready& ready) {
    const std::size_t in = static_cast<std::size_t>(pass.samples) * B::numbers(problem_.in);
    number* const other = pass.gradients->take();  // x', then dx
    simulate(in, x_, k_, other, pass.s);
    pass.workspace->reserve(engine{}.template workspace<number>(problem_, pass.samples, pass.s));
    engine{}.template wgrad<number>(problem_, pass.samples, other, dy, pass.plane + weights_,
                                    pass.mode, pass.workspace->span().data, pass.s);
    if (to.wanted) {
      engine{}.template dgrad<number>(problem_, pass.samples, dy, pass.template at<number>(image_),
                                      other, into::overwrite, pass.s);
      pass_straight(in, x_, k_, other, to.onto, pass.s);
    }
    pass.gradients->give(dy);
    const bool kept = to.wanted && to.onto == nullptr;
    if (!kept) pass.gradients->give(other);
    ready(segment_);
    return kept ? other : to.onto;
  }

  void fprop(const forward_pass<B>& pass, const number* x, number* y) const {
    engine::fprop_bytes(problem_, pass.samples, x, k_, pass.template at<std::int8_t>(bytes_),
                        pass.template at<float>(scales_), y, pass.s);
  }
  static constexpr std::size_t size_of(int n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] std::size_t numbers(const forward_pass<B>& pass, const extent& e) const {
    return size_of(pass.samples) * B::numbers(e);
  }
  /// Zeros among what the layer reads that are no channel's.
  [[nodiscard]] std::size_t filling(const forward_pass<B>& pass) const {
    return numbers(pass, problem_.in) - size_of(pass.samples) * problem_.in.size();
  }

  real_range note(const forward_pass<B>& pass, const number* x) const {
    const std::size_t n = numbers(pass, problem_.in);
    const real_range seen = range_of(n, x, pass.s);
    pass.quantisation->note(watched_, seen, n, x, pass.s, filling(pass));
    return seen;
  }
  /// What x is quantised by.
  affine<float> range(const forward_pass<B>& pass, const number* x) const {
    const real_range running{pass.plane[low_], pass.plane[high_]};
    if (pass.what == phase::train) return fit_input(running, note(pass, x), pass.samples > 0);
    if (!running.seen()) refuse_unknown_range(name_);
    return fit_affine(running.low, running.high, unsigned_bytes);
  }
  /// The same where kernels decide it; who asks for the score hears that a range was missing.
  affine<float>* range_there(const forward_pass<B>& pass, const number* x) const {
    auto& there = *pass.quantisation;
    const auto *low = pass.plane + low_, *high = pass.plane + high_;
    input_record* const record = there.records.span().data + watched_;
    if (pass.what != phase::train) {
      recall_input(low, high, record, pass.s);
      return &record->by;
    }
    const std::size_t n = numbers(pass, problem_.in);
    note_input(n, x, low, high, record, pass.s);
    if (there.percentile < 100)
      count_numbers(n, x, there.counts.span().data + watched_ * number_bins::count, pass.s,
                    filling(pass));
    return &record->by;
  }

  /// With the masters, so that what follows sees what FP32 would show it.
  [[gnu::cold, gnu::noinline]] void run_in_full(const forward_pass<B>& pass, const number* x,
                                                number* y) {
    const std::size_t in = numbers(pass, problem_.in), out = numbers(pass, problem_.out());
    std::vector<number> packed(engine{}.template packed_size<number>(problem_));
    engine{}.template pack<number>(problem_, pass.plane + weights_, packed.data(), pass.s);
    quantisation_watch& watch = pass.quantisation->watch;
    if (watch.how == quantisation_watch::runs::observed) {
      note(pass, x);
    } else {
      layer_watch& mine = watch.layers[watched_];
      k_ = range(pass, x);
      std::vector<number> quantised(out);
      fprop(pass, x, quantised.data());
      engine{}.template fprop<number>(problem_, pass.samples, x, packed.data(), y, pass.s);
      for (std::size_t i = 0; i < out; ++i) {
        const double full = y[i], off = quantised[i] - full;
        mine.error += off * off;
        mine.square += full * full;
      }
      for (std::size_t i = 0; i < in; ++i) mine.clipped += k_.passes(x[i]) ? 0 : 1;
      mine.count += static_cast<double>(in - filling(pass));
      return;
    }
    engine{}.template fprop<number>(problem_, pass.samples, x, packed.data(), y, pass.s);
  }

  convolution_problem problem_;
  std::size_t segment_, weights_, low_, high_;
  std::string_view name_;
  std::size_t watched_, image_, bytes_, scales_, activation_;
  scaling k_{};
  const number* x_ = nullptr;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
