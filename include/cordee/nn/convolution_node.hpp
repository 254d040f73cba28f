// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The node of a convolution (convolution.hpp), which linear.hpp has for its product, too.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cordee/core/min_max.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/ops/convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

template <class B>
class convolution_node {
  using number = typename B::number;
  using real = typename B::real;
  using engine = typename B::engine;
  static_assert(
      ConvolutionEngine<engine, number, typename B::real, typename B::stream>,
      "this engine has no convolution in this precision: name no engine, for the default, or "
      "on the CPU direct or reference, which have all (blocked has no 16 bits)");

 public:
  static constexpr bool skips_frozen_gradients = true, forgets_output = true;
  [[gnu::cold, gnu::noinline]] convolution_node(const convolution_problem& problem,
                                                layout_builder& layout)
      : problem_(problem),
        segment_(layout.next_segment++),
        weights_(layout.table[segment_].offset),
        packed_(
            layout.template reserve_packed<number>(engine{}.template packed_size<number>(problem))),
        activation_(layout.add_activation(sizeof(number) * B::numbers(problem.out()))) {
    problem_.margin = std::exchange(layout.image_margin, 0);
    layout.note_activation_size(std::max(B::numbers(problem.in), B::numbers(problem.out())));
    layout.pass.convolutions.push_back(problem);
    if constexpr (B::packs_crsk) {  // fprop reads one order, dgrad the other
      const std::size_t half = engine{}.template packed_size<number>(problem) / 2 * sizeof(number);
      layout.split_packed(packed_, packed_ + half, packed_ + half, packed_ + 2 * half);
    }
    if constexpr (B::packs_by_table) {
      auto t = detail::ops::packed_weights(
          {problem, B::block(problem.in.channels), B::block(problem.filters)}, weights_, packed_,
          B::packs_crsk);
      t.gradient_is_packed = B::packs_gradients;
      layout.add_packed(t);
    }
  }

  void pack_parameters(const pack_pass<B>& pass) const {
    engine{}.template pack<number>(problem_, pass.plane + weights_,
                                   pass.template packed_at<number>(packed_), pass.s);
  }

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.buffer_for(activation_, B::numbers(problem_.out()));
    x_ = x;
    if constexpr (B::fuses_batch_norm)
      if (input_) {
        fprop_normalized(pass, y, ops::batch_statistics<real>{});
        return y;
      }
    engine{}.template fprop<number>(problem_, pass.samples, x,
                                    pass.template packed_at<number>(packed_), y, pass.s);
    return y;
  }
  /// And the statistics of the batch norm behind it.
  template <class Norm>
  const number* forward(const forward_pass<B>& pass, const number* x, Norm& norm)
    requires requires { norm.statistics_of(pass); }
  {
    number* const y = pass.buffer_for(activation_, B::numbers(problem_.out()));
    x_ = x;
    const auto statistics = norm.statistics_of(pass);
    const auto fprop = [&] {
      return engine{}.template fprop<number>(problem_, pass.samples, x,
                                             pass.template packed_at<number>(packed_), y,
                                             statistics, pass.s);
    };
    if constexpr (B::fuses_batch_norm)
      norm.set_rounded(input_ ? fprop_normalized(pass, y, statistics) : fprop());
    else
      fprop();
    return y;
  }
  /// The next forward's input, which the batch norm before may not have stored. Null: it has.
  void read_normalized(const forward_pass<B>& pass,
                       const ops::normalized_input<number, real>& input)
    requires(B::fuses_batch_norm)
  {
    input_ = input;
    input_.packed = pass.packed;
  }

  /// The same of the end of a residual block. Returns whether it reads it, in which case it stores
  /// y.
  bool read_sum(const forward_pass<B>& pass, const ops::normalized_input<number, real>& input)
    requires(B::fuses_batch_norm)
  {
    if (pass.slots != nullptr) return false;  // in backward the block before has no weights
    read_normalized(pass, input);
    return true;
  }

  /// The next forward's input are maxima of a pool, whose batch norm's input at them is known.
  /// Null: it is not.
  void read_maxima(const forward_pass<B>& pass, const ops::normalized_input<number, real>& maxima)
    requires(B::fuses_batch_norm)
  {
    maxima_ = {};
    if (pass.slots != nullptr) return;  // in backward the norm has no weights
    maxima_ = maxima;
    maxima_.packed = pass.packed;
  }

  /// The last forward's input, which was not kept.
  void restore_input(const number* x) { x_ = x; }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    if constexpr (B::fuses_batch_norm) {
      input_.rebase(pass.packed);
      maxima_.rebase(pass.packed);
    }
    number* dx = nullptr;
    if (target.needed)
      dx = target.accumulate_into != nullptr
               ? target.accumulate_into
               : pass.gradients->acquire(static_cast<std::size_t>(pass.samples) *
                                         B::numbers(problem_.in));
    dx = compute_gradients(
        pass, dy, dx, target.accumulate_into != nullptr ? write_mode::add : write_mode::overwrite);
    if constexpr (is_observed<Ready>)
      ready.observe(segment_, convolution_samples<number>{problem_, pass.samples,
                                                          B::block(problem_.in.channels),
                                                          B::block(problem_.filters), x_, dy});
    pass.gradients->release(dy);
    ready(segment_);
    return dx;
  }

 private:
  struct no_input {};

  bool fprop_normalized(const forward_pass<B>& pass, number* y,
                        const ops::batch_statistics<real>& statistics) {
    return engine{}.template fprop_normalized<number>(problem_, pass.samples, input_,
                                                      pass.template packed_at<number>(packed_), y,
                                                      statistics, pass.s);
  }
  /// Returns the memory of dx, which may be other than what was given.
  number* compute_gradients(const backward_pass<B>& pass, const number* dy, number* dx,
                            write_mode dx_mode) {
    const number* const packed = pass.template packed_at<number>(packed_);
    if constexpr (requires { requires engine::shares_backward; })
      if (dx != nullptr && !pass.is_frozen(segment_)) {
        in_workspace(pass, [&](number* workspace) {
          engine{}.template backward<number>(problem_, pass.samples, x_, dy, packed,
                                             pass.gradient_at(segment_, weights_), pass.mode,
                                             workspace, dx, dx_mode, pass.s);
        });
        return dx;
      }
    if (!pass.is_frozen(segment_)) compute_weight_gradient(pass, dy);
    if constexpr (B::fuses_batch_norm)
      if ((input_ || maxima_) && dx != nullptr && takes_sums(pass)) {
        if (input_ && !input_.adds()) {
          if (engine{}.template dgrad_normalized<number>(problem_, pass.samples, dy, packed, input_,
                                                         dx, pass.s))
            pass.gradients->set_summed(input_.norm.saved);
          return dx;
        }
        if (number* const sum = add_and_sum(pass, input_ ? input_ : maxima_, dy, dx, dx_mode);
            sum != nullptr)
          return sum;
      }
    if (dx != nullptr)
      engine{}.template dgrad<number>(problem_, pass.samples, dy, packed, dx, dx_mode, pass.s);
    return dx;
  }
  // dx, which the shortcut's is added to, masked and summed for the block or the pool before, in
  // memory of its own; null if that is not faster.
  number* add_and_sum(const backward_pass<B>& pass, const ops::normalized_input<number, real>& in,
                      const number* dy, number* other, write_mode mode) {
    if (mode != write_mode::add ||
        !engine{}.template may_add_and_sum<number>(problem_, pass.samples, in))
      return nullptr;
    number* const dx =
        pass.gradients->acquire(static_cast<std::size_t>(pass.samples) * B::numbers(problem_.in));
    const bool fused = engine{}.template dgrad_added<number>(
        problem_, pass.samples, dy, pass.template packed_at<number>(packed_), in, other, dx,
        pass.s);
    pass.gradients->release(fused ? other : dx);
    if (!fused) return nullptr;
    pass.gradients->set_summed(in.norm.saved, in.shortcut.saved);
    return dx;
  }
  // Whether dx may be masked and summed for the batch norm before.
  [[nodiscard]] bool takes_sums(const backward_pass<B>& pass) const {
    if (pass.batch_norm_allreduce) engine::note(ops::not_fused::shared_gradients);
    return !pass.batch_norm_allreduce;
  }
  void compute_weight_gradient(const backward_pass<B>& pass, const number* dy) {
    if constexpr (B::packs_gradients) {
      if (pass.packed_gradients != nullptr)
        return compute_packed(pass, dy, reinterpret_cast<number*>(pass.packed_gradients + packed_));
      if (pass.places != nullptr && pass.places->is_cut(segment_))
        return in_workspace(pass, [&](number* workspace) {
          compute_packed(pass, dy, workspace);
          unpack_slices(pass, workspace);
        });
    }
    in_workspace(pass, [&](number* workspace) {
      if constexpr (B::fuses_batch_norm)
        if (input_)
          return engine{}.template wgrad_normalized<number>(problem_, pass.samples, input_, dy,
                                                            pass.gradient_at(segment_, weights_),
                                                            pass.mode, workspace, pass.s);
      engine{}.template wgrad<number>(problem_, pass.samples, x_, dy,
                                      pass.gradient_at(segment_, weights_), pass.mode, workspace,
                                      pass.s);
    });
  }
  void compute_packed(const backward_pass<B>& pass, const number* dy, number* packed) {
    if constexpr (B::fuses_batch_norm)
      if (input_)
        return engine{}.template wgrad_packed_normalized<number>(problem_, pass.samples, input_, dy,
                                                                 packed, pass.s);
    engine{}.template wgrad_packed<number>(problem_, pass.samples, x_, dy, packed, pass.s);
  }
  // A gradient of which each slice, of whole filters, is taken away before the next one.
  void unpack_slices(const backward_pass<B>& pass, const number* packed) {
    const int channels = B::block(problem_.in.channels), taps = problem_.window * problem_.window;
    const auto of_filter = static_cast<std::size_t>(problem_.in.channels * taps);
    pass.places->for_each_slice(segment_, [&](const auto& slice) {
      if (pass.samples == 0 && pass.mode == write_mode::add) return;
      convolution_problem part = problem_;
      part.filters = static_cast<int>(slice.size / of_filter);
      // for a GPU by argument-dependent lookup: ops/gpu/filter_layout.hpp
      unpack_krsc(part, channels, part.filters,
                  packed + slice.first / of_filter * static_cast<std::size_t>(channels * taps),
                  slice.numbers, pass.mode, pass.s);
    });
  }
  // f(memory of the weight gradient): on a CPU where activations were, or behind them.
  template <class F>
  void in_workspace(const backward_pass<B>& pass, const F& f) {
    const std::size_t size = engine{}.template workspace<number>(problem_, pass.samples, pass.s);
    if (!B::device::host_memory || pass.saved == nullptr || size == 0) {
      pass.workspace->reserve(size);
      return f(pass.workspace->span().data);
    }
    number* const memory = pass.gradients->acquire(size);
    f(memory);
    pass.gradients->release(memory);
  }

  convolution_problem problem_;
  std::size_t segment_, weights_, packed_, activation_;
  const number* x_ = nullptr;
  [[no_unique_address]] std::conditional_t<B::fuses_batch_norm, ops::normalized_input<number, real>,
                                           no_input>
      input_, maxima_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
