// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The residual block, y = relu(norm(body(x)) + shortcut(x)), and its shortcuts (He et al., 2016).
//
// The addition and the ReLU are fused with the batch norm. In backward, the masked gradient is the
// dy of both the norm and the shortcut; the shortcut is first, because its parameters are last in
// the table.
#pragma once

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/cpu/pooling.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

template <class B, int VX, int VY>
class subsample_node {
  using number = typename B::number;

 public:
  static constexpr bool skips_frozen_gradients = true;
  subsample_node(const ops::subsample_problem& problem, layout_builder& layout)
      : problem_(problem),
        activation_(layout.add_output(sizeof(number) * B::numbers(problem.out))) {
    layout.note_activation_size(std::max(B::numbers(problem.in), B::numbers(problem.out)));
  }
  void pack_parameters(const pack_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = activation_ == given_activation
                          ? given_
                          : pass.buffer_for(activation_, B::numbers(problem_.out));
    if (y == nullptr) return y;  // it is not read
    // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
    subsample_forward<number, VX, VY>(problem_, pass.samples, x, y, pass.s);
    return y;
  }
  /// Where forward writes y; see writes_given_output.
  void write_to(number* y) { given_ = y; }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready&) {
    number* dx =
        pass.gradients->acquire(static_cast<std::size_t>(pass.samples) * B::numbers(problem_.in));
    // for a GPU by argument-dependent lookup: ops/gpu/pooling.hpp
    subsample_backward<number, VX, VY>(problem_, pass.samples, dy, dx, pass.s);
    pass.gradients->release(dy);
    return pass.route_input_gradient(problem_.in, dx, target);
  }

 private:
  ops::subsample_problem problem_;
  std::size_t activation_;
  number* given_ = nullptr;
};

template <class Body, class Norm, class Shortcut>
struct residual_node {
  static constexpr bool skips_frozen_gradients =
      SkipsFrozenGradients<Body> && SkipsFrozenGradients<Norm> && SkipsFrozenGradients<Shortcut>;
  static constexpr bool keeps_order = true;
  Body body;
  Norm norm;
  Shortcut shortcut;

  template <class B>
  void pack_parameters(const pack_pass<B>& pass) const {
    body.pack_parameters(pass);
    norm.pack_parameters(pass);
    shortcut.pack_parameters(pass);
  }
  void write_block_output() { norm.write_block_output(); }

  template <class B, class N>
  const N* forward(const forward_pass<B>& pass, const N* x) {
    const N* const z = detail::nn::forward_before(body, pass, x, norm);
    return norm.forward(pass, z, run_shortcut(pass, x));
  }
  template <class B, class N, class Next>
  const N* forward(const forward_pass<B>& pass, const N* x, Next& next)
    requires detail::nn::QuantizesInput<Next, B>
  {
    const N* const z = detail::nn::forward_before(body, pass, x, norm);
    return norm.forward(pass, z, run_shortcut(pass, x), next);
  }
  /// Where it can be, the sum is left to `next`, whose first convolution stores it, or to an
  /// average pool, which does not.
  template <class B, class N, class Next>
  const N* forward(const forward_pass<B>& pass, const N* x, Next& next)
    requires(B::fuses_batch_norm &&
             (detail::nn::ReadsSum<Next, B> || detail::nn::PoolsSum<Next, B>))
  {
    const N* const z = detail::nn::forward_before(body, pass, x, norm);
    unnormalized_shortcut<B> left{detail::nn::leave_sum<Next, B>(next, pass, {}) &&
                                  norm.leaves_output(pass)};
    const N* residual = nullptr;
    if constexpr (requires { run_shortcut(pass, x, left); })
      residual = run_shortcut(pass, x, left);
    else
      residual = run_shortcut(pass, x);
    return norm.forward(pass, z, residual, left, next);
  }
  template <class B>
    requires detail::nn::ReadsSum<Body, B>
  bool read_sum(const forward_pass<B>& pass, const input_of<B>& input) {
    return body.read_sum(pass, input);
  }
  template <class B>
    requires detail::nn::ReadsMaxima<Body, B>
  void read_maxima(const forward_pass<B>& pass, const input_of<B>& maxima) {
    body.read_maxima(pass, maxima);
  }
  template <class B>
    requires detail::nn::QuantizesInput<Body, B>
  auto input_target(const forward_pass<B>& pass) {
    return body.input_target(pass);
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, gradient_target<N> target, Ready& ready) {
    N* const dz = pass.gradients->acquire(norm.size(pass));
    if (N* const sum = compute_pooled_gradients(pass, dy, dz); sum != nullptr)
      dy = sum;
    else if constexpr (detail::nn::HasGradientOperands<Body, B>)
      norm.compute_gradients(pass, dy, dz, body.gradient_operands(pass));
    else if constexpr (requires { norm.compute_both_gradients(pass, dy, dz, shortcut.last()); })
      norm.compute_both_gradients(pass, dy, dz, shortcut.last());
    else
      norm.compute_gradients(pass, dy, dz);
    // now dy is the gradient of the sum
    norm.observe_samples(pass, ready);
    N* const dx = shortcut.backward(pass, dy, target, ready);
    norm.signal_ready(ready);
    return body.backward(pass, dz, {.accumulate_into = dx, .needed = target.needed}, ready);
  }

 private:
  template <class B, class N>
  N* compute_pooled_gradients(const backward_pass<B>& pass, const N* dy, N* dz) {
    if constexpr (requires { norm.compute_pooled_gradients(pass, dy, dz); })
      return norm.compute_pooled_gradients(pass, dy, dz);
    else
      return nullptr;
  }
  // Its output, where it can be, in the memory of the block's, which replaces it.
  template <class B, class N>
  const N* run_shortcut(const forward_pass<B>& pass, const N* x) {
    if constexpr (requires(N* y) { shortcut.write_to(y); })
      shortcut.write_to(norm.begin_output(pass));
    return shortcut.forward(pass, x);
  }
  // The same, unless its batch norm is left.
  template <class B, class N>
  const N* run_shortcut(const forward_pass<B>& pass, const N* x, unnormalized_shortcut<B>& left)
    requires requires { shortcut.forward(pass, x, left); }
  {
    if constexpr (requires(N* y) { shortcut.write_to(y); })
      shortcut.write_to(norm.begin_output(pass));
    return shortcut.forward(pass, x, left);
  }
};
template <class Body, class Norm, class Shortcut>
residual_node(Body, Norm, Shortcut) -> residual_node<Body, Norm, Shortcut>;

/// The layers of a residual block while they are bound.
class residual_layout {
 public:
  /// `in`, `out`: bytes of a sample in the block's input and output.
  [[gnu::cold, gnu::noinline]] residual_layout(layout_builder& layout, std::size_t in,
                                               std::size_t out)
      : layout_(layout), begin_(layout.begin_block()), parts_(begin_.parts), in_(in), out_(out) {}

  /// For the body, which is bound first.
  [[gnu::cold, gnu::noinline]] layout_builder& body() {
    layout_.held_gradients += in_;  // the shortcut's dx
    return layout_;
  }
  /// For the batch norm, after the body.
  [[gnu::cold, gnu::noinline]] layout_builder& norm() {
    layout_.note_gradients(parts_, in_ + out_);
    parts_ = layout_.pass.parts.size();
    layout_.held_gradients += out_ - in_;  // the body's dy
    return layout_;
  }
  /// For the shortcut, after the batch norm.
  [[gnu::cold, gnu::noinline]] layout_builder& shortcut(bool writes_given_output) {
    if (writes_given_output) layout_.output_index = given_activation;
    return layout_;
  }
  [[gnu::cold, gnu::noinline]] void end(bool is_shortcut_identity) {
    layout_.held_gradients -= out_;
    const bool noted = is_shortcut_identity || parts_ != layout_.pass.parts.size();
    layout_.note_gradients(layout_.pass.parts.size(), 2 * out_ + (noted ? 0 : in_));
    layout_.end_block(begin_, out_, true);
  }

 private:
  layout_builder& layout_;
  pass_layout::mark begin_;
  std::size_t parts_, in_, out_;
};

}  // namespace detail::nn

/// Option A: every Stride-th pixel; new channels are zero, half of them on each side. No
/// parameters.
template <int Channels, int Stride = 2>
struct subsample_pad {
  /// Returns the geometry for inputs of extent `in`.
  static constexpr detail::ops::subsample_problem problem(const extent& in) {
    return {in,
            {Channels, (in.height + Stride - 1) / Stride, (in.width + Stride - 1) / Stride},
            Stride};
  }
  static constexpr extent out(const extent& in) { return problem(in).out; }  ///< See Layer.
  static constexpr void describe(const extent&, parameter_registry&) {}      ///< Adds nothing.
  /// See Layer. Fewer channels than the input has, or an odd number of new ones, are a compile
  /// error.
  template <class B, extent In>
  static auto bind(layout_builder& layout) {
    static_assert(
        Channels >= In.channels && (Channels - In.channels) % 2 == 0,
        "subsample_pad adds as many channels before as after: use a projection for an odd "
        "number of new channels, or for fewer channels");
    return detail::nn::subsample_node<B, B::block(In.channels), B::block(Channels)>(problem(In),
                                                                                    layout);
  }
};

/// Option B: a 1x1 convolution and a batch norm.
template <int Channels, int Stride = 2, int GhostBatch = 0>
struct projection : sequential<convolution<Channels, 1, Stride>,
                               batch_norm<identity, batch_norm_options{1, GhostBatch}>> {
  /// Adds the parameters as "downsample.0" and "downsample.1".
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_named("downsample", true);
    sequential<convolution<Channels, 1, Stride>,
               batch_norm<identity, batch_norm_options{1, GhostBatch}>>::describe(in, registry);
    registry.leave(parent);
  }
};

namespace detail::nn {
template <int Channels, int Stride>
inline constexpr bool writes_given_output<subsample_pad<Channels, Stride>> = true;
template <int Channels, int Stride, int GhostBatch>
inline constexpr bool writes_given_output<projection<Channels, Stride, GhostBatch>> = true;
}  // namespace detail::nn

/// Residual block. `Norm` is a batch norm without activation: the ReLU follows the addition.
template <Layer Body, Layer Norm, Layer Shortcut = identity>
struct residual {
  static_assert(
      std::same_as<typename Norm::activation, identity>,
      "the ReLU of a residual block follows the addition: use batch_norm<> without activation");

  static constexpr extent out(const extent& in) { return Body::out(in); }  ///< See Layer.
  /// Adds the parameters of body, norm and shortcut, under the block's position.
  static constexpr void describe(const extent& in, parameter_registry& registry) {
    const auto parent = registry.enter_block();
    Body::describe(in, registry);
    Norm::describe(Body::out(in), registry);
    Shortcut::describe(in, registry);
    registry.leave(parent);
  }
  /// See Layer. If body and shortcut differ in extent, it is a compile error.
  template <class B, extent In>
  [[gnu::cold]] static auto bind(layout_builder& layout) {
    static_assert(Shortcut::out(In) == Body::out(In),
                  "body and shortcut of a residual block must have the same extent: use "
                  "subsample_pad or projection where the body changes it");
    detail::nn::residual_layout block(layout, sizeof(typename B::number) * B::numbers(In),
                                      sizeof(typename B::number) * B::numbers(Body::out(In)));
    detail::nn::residual_node node{
        Body::template bind<B, In>(block.body()),  // braces: in this order
        Norm::template bind<B, Body::out(In), detail::ops::epilogue::add_relu>(block.norm()),
        Shortcut::template bind<B, In>(block.shortcut(detail::nn::writes_given_output<Shortcut>))};
    block.end(std::same_as<Shortcut, identity>);
    return node;
  }
};

}  // namespace cordee::inline CORDEE_ABI
