// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Global average pooling, the mean over the pixels of a channel, and max pooling, the maximum over
// each window (ops/pooling.hpp).
#pragma once

#include <type_traits>

#include <cordee/nn/layer.hpp>
#include <cordee/ops/cpu/pooling.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

struct no_input {};
/// The input of a pool that the batch norm before has not stored.
template <class B>
using pooled_input =
    std::conditional_t<B::fuses_batch_norm,
                       ops::normalized_input<typename B::number, typename B::real>, no_input>;

template <class B, int V>
class average_pool_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  average_pool_node(const extent& in, layout_builder& layout)
      : in_(in),
        activation_(layout.add_last_activation(sizeof(number) * B::numbers({in.channels, 1, 1}))) {
    layout.note_activation_size(B::numbers(in));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  /// The next forward's input, the end of a residual block, which this alone reads; nothing: it is
  /// stored. Returns whether this may take it.
  bool pool_sum(const forward_pass<B>& pass, const pooled_input<B>& input)
    requires(B::fuses_batch_norm)
  {
    input_ = input;
    return pass.slots == nullptr;  // else the block's weights are gone
  }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.buffer_for(activation_, B::numbers({in_.channels, 1, 1}));
    if constexpr (B::fuses_batch_norm)
      if (input_ && adds_here(pass)) {
        // by argument-dependent lookup: ops/gpu/normalized_average_pool.hpp
        normalized_average_pool_forward<number, V>(in_, pass.samples, input_.norm, input_.residual,
                                                   y, pass.s);
        return y;
      }
    // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
    average_pool_forward<number, V>(in_, pass.samples, x, y, pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    if constexpr (B::fuses_batch_norm)
      if (input_) {  // the block computes its gradients from dy
        pass.gradients->set_pooled(input_.norm.saved);
        return dy;
      }
    number* dx = pass.gradients->acquire(static_cast<std::size_t>(pass.samples) * B::numbers(in_));
    // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
    average_pool_backward<number, V>(in_, pass.samples, dy, dx, pass.s);
    pass.gradients->release(dy);
    return pass.route_input_gradient(in_, dx, target);
  }

 private:
  // Whether the sum is not stored; else, and then this is a plain pool, it is now.
  bool adds_here(const forward_pass<B>& pass) {
    const bool is_dual = input_.shortcut.x != nullptr;
    if (!is_dual && ops::fits_pooled_signs(in_.pixels(), sizeof(number))) {
      B::engine::note(ops::fused_pool::average);
      return true;
    }
    B::engine::note(is_dual ? ops::not_fused::pool_of_projection : ops::not_fused::pool_of_pixels);
    store_normalized(input_, pass.samples, V, pass.s);  // ops/gpu/fused_batch_norm.hpp
    input_ = {};
    return false;
  }

  extent in_;
  std::size_t activation_;
  [[no_unique_address]] pooled_input<B> input_;
};

template <class B, int V>
class max_pool_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  max_pool_node(const ops::max_pool_problem& problem, layout_builder& layout)
      : problem_(problem),
        activation_(layout.add_activation(sizeof(number) * B::numbers(problem.out()))),
        maxima_(layout.add_activation(B::numbers(problem.out()))) {  // a byte each
    layout.note_activation_size(std::max(B::numbers(problem.in), B::numbers(problem.out())));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  /// The next forward's input, which a batch norm before has not stored. Null: it has.
  void read_normalized(const forward_pass<B>&, const pooled_input<B>& input)
    requires(B::fuses_batch_norm)
  {
    input_ = input;
  }
  const number* forward(const forward_pass<B>& pass, const number* x) {
    const std::size_t numbers = B::numbers(problem_.out());
    number* const y = pass.buffer_for(activation_, numbers);
    argmax_ = pass.saved->template buffer_for<std::uint8_t>(
        maxima_, static_cast<std::size_t>(pass.samples) * numbers);
    if constexpr (B::fuses_batch_norm)
      if (input_) {
        B::engine::note(ops::fused_pool::max);
        // by argument-dependent lookup: ops/gpu/normalized_max_pool.hpp
        normalized_max_pool_forward<number, V>(problem_, pass.samples, input_.norm, y, argmax_,
                                               pass.s);
        return y;
      }
    // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
    max_pool_forward<number, V>(problem_, pass.samples, x, y, argmax_, pass.s);
    return y;
  }
  /// The same for `next`, whose input gradient may have the sums of the batch norm before.
  template <class Next>
  const number* forward(const forward_pass<B>& pass, const number* x, Next& next)
    requires(B::fuses_batch_norm && ReadsMaxima<Next, B>)
  {
    const number* const y = forward(pass, x);
    auto maxima = input_;
    maxima.problem = {problem_.out()};
    maxima.norm.x = maxima.norm.y;  // where forward has stored them
    next.read_maxima(pass, maxima);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    number* dx = nullptr;
    if (target.needed) {
      dx = target.accumulate_into != nullptr
               ? target.accumulate_into
               : pass.gradients->acquire(static_cast<std::size_t>(pass.samples) *
                                         B::numbers(problem_.in));
      // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
      max_pool_backward<number, V>(
          problem_, pass.samples, dy, argmax_, dx,
          target.accumulate_into != nullptr ? write_mode::add : write_mode::overwrite, pass.s);
    }
    pass.gradients->release(dy);
    return dx;
  }

  /// Where forward has read what `previous`, a batch norm, reads, dx is that of both.
  template <class Ready, class Previous>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready, Previous& previous)
    requires requires(std::uint8_t* taps) {
      previous.compute_gradients(pass, dy, dy, ops::max_pool_problem{}, taps);
    }
  {
    if (!input_) return backward(pass, dy, target, ready);
    number* const dx = pass.gradients->acquire(previous.size(pass));
    previous.compute_gradients(pass, dy, dx, problem_, argmax_);
    pass.gradients->release(dy);
    return dx;
  }

 private:
  ops::max_pool_problem problem_;
  std::size_t activation_, maxima_;
  std::uint8_t* argmax_ = nullptr;
  [[no_unique_address]] pooled_input<B> input_;
};

}  // namespace detail::nn

/// Mean over each channel's pixels; leaves one pixel.
struct global_average_pool {
  static constexpr extent out(const extent& in) { return {in.channels, 1, 1}; }  ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}          ///< Adds nothing.
  /// See Layer.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    return detail::nn::average_pool_node<B, B::block(In.channels)>(In, layout);
  }
};

/// Maximum over each window of a channel.
/// By default padded by half an odd window, as in ResNets. The padding is never the maximum.
template <int Window = 3, int Stride = 2, int Padding = (Window - 1) / 2>
struct max_pool {
  static_assert(Window > 0 && Window <= detail::ops::max_pool_problem::largest_window && Stride > 0,
                "a max pool needs a window of 1 to 16 pixels and a positive stride");
  static_assert(
      Padding >= 0 && 2 * Padding <= Window,
      "a max pool is padded by half its window at most, so that each window contains a pixel");

  /// Returns the geometry for inputs of extent `in`.
  static constexpr detail::ops::max_pool_problem problem(const extent& in) {
    return {in, Window, Stride, Padding};
  }
  static constexpr extent out(const extent& in) { return problem(in).out(); }  ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}        ///< Adds nothing.
  /// See Layer. An input smaller than the window even when padded is a compile error.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    static_assert(In.height + 2 * Padding >= Window && In.width + 2 * Padding >= Window,
                  "a max pool's window is larger than its padded image: use a larger image or a "
                  "smaller window");
    return detail::nn::max_pool_node<B, B::block(In.channels)>(problem(In), layout);
  }
};

namespace detail::nn {
template <int Window, int Stride, int Padding>
inline constexpr bool forgets_input<max_pool<Window, Stride, Padding>> = true;
}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
