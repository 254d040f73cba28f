// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The residual block, y = relu(norm(body(x)) + shortcut(x)), and its shortcuts (He et al., 2016).
//
// The addition and the ReLU ride on the norm's pass. Backward, the masked gradient is the norm's
// and the shortcut's alike; the shortcut goes first, because its parameters stand last in the
// table.
#pragma once

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B, int VX, int VY>
class subsample_node {
  using number = typename B::number;

 public:
  subsample_node(const subsample_problem& problem, placement& to)
      : problem_(problem), activation_(to.activation++) {
    to.meet(std::max(B::numbers(problem.in), B::numbers(problem.out)));
  }
  void publish(const publish_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, B::numbers(problem_.out));
    subsample_forward<number, VX, VY>(problem_, pass.samples, x, y, pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
    number* dx = pass.gradients->take();
    subsample_backward<number, VX, VY>(problem_, pass.samples, dy, dx, pass.s);
    pass.gradients->give(dy);
    return deliver(pass, problem_.in, dx, to);
  }

 private:
  subsample_problem problem_;
  std::size_t activation_;
};

template <class Body, class Norm, class Shortcut>
struct residual_node {
  Body body;
  Norm norm;
  Shortcut shortcut;

  template <class B>
  void publish(const publish_pass<B>& pass) const {
    body.publish(pass);
    norm.publish(pass);
    shortcut.publish(pass);
  }
  template <class B, class N>
  const N* forward(const forward_pass<B>& pass, const N* x) {
    const N* const z = body.forward(pass, x);
    return norm.forward(pass, z, shortcut.forward(pass, x));
  }
  template <class B, class N, class Ready>
  N* backward(const backward_pass<B>& pass, N* dy, destination<N> to, Ready& ready) {
    N* const dz = pass.gradients->take();
    norm.gradients(pass, dy, dz);  // from here dy is what the addition received
    N* const dx = shortcut.backward(pass, dy, to, ready);
    norm.announce(ready);
    return body.backward(pass, dz, {.onto = dx, .wanted = to.wanted}, ready);
  }
};
template <class Body, class Norm, class Shortcut>
residual_node(Body, Norm, Shortcut) -> residual_node<Body, Norm, Shortcut>;

}  // namespace detail

/// Option A: every second pixel, new channels zero, half of them on each side. No parameters.
template <int Channels, int Stride = 2>
struct subsample_pad {
  static constexpr subsample_problem problem(const extent& in) {
    return {in,
            {Channels, (in.height + Stride - 1) / Stride, (in.width + Stride - 1) / Stride},
            Stride};
  }
  static constexpr extent out(const extent& in) { return problem(in).out; }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  static auto bind(placement& to) {
    static_assert(
        Channels >= In.channels && (Channels - In.channels) % 2 == 0,
        "subsample_pad adds as many channels before as after: use a projection for an odd "
        "number of new channels, or for fewer than there are");
    return detail::subsample_node<B, B::block(In.channels), B::block(Channels)>(problem(In), to);
  }
};

/// Option B: a convolution of one pixel and a batch norm.
template <int Channels, int Stride = 2, int Group = 0>
struct projection
    : sequential<convolution<Channels, 1, Stride>, batch_norm<identity, norm_settings{1, Group}>> {
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.named("downsample", true);
    sequential<convolution<Channels, 1, Stride>,
               batch_norm<identity, norm_settings{1, Group}>>::describe(in, to);
    to.back(mark);
  }
};

template <Layer Body, Layer Norm, Layer Shortcut = identity>
struct residual {
  static_assert(std::same_as<typename Norm::activation, identity>,
                "the ReLU of a residual block comes after the addition: give it a batch_norm<>");

  static constexpr extent out(const extent& in) { return Body::out(in); }
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.block();
    Body::describe(in, to);
    Norm::describe(Body::out(in), to);
    Shortcut::describe(in, to);
    to.back(mark);
  }

  template <class B, extent In>
  [[gnu::cold]] static auto bind(placement& to) {
    static_assert(Shortcut::out(In) == Body::out(In),
                  "body and shortcut of a residual block must have the same extent: use "
                  "subsample_pad or projection where the body changes it");
    return detail::residual_node{Body::template bind<B, In>(to),  // braces: in this order
                                 Norm::template bind<B, Body::out(In), epilogue::add_relu>(to),
                                 Shortcut::template bind<B, In>(to)};
  }
};

}  // namespace cordee::inline CORDEE_ABI
