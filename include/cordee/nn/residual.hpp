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
  class bound {
    static_assert(
        Channels >= In.channels && (Channels - In.channels) % 2 == 0,
        "subsample_pad adds as many channels before as after: use a projection for an odd "
        "number of new channels, or for fewer than there are");
    using number = typename B::number;
    static constexpr subsample_problem at = problem(In);
    static constexpr int VX = B::block(In.channels), VY = B::block(Channels);

   public:
    static constexpr extent out = at.out;
    static constexpr std::size_t largest = std::max(B::numbers(In), B::numbers(out));

    bound(placement& to) : activation_(to.activation++) {}
    void publish(const publish_pass<B>&) const {}

    const number* forward(const forward_pass<B>& pass, const number* x) {
      number* const y = pass.room(activation_, B::numbers(out));
      subsample_forward<number, VX, VY>(at, pass.samples, x, y, pass.s);
      return y;
    }
    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
      number* dx = pass.gradients->take();
      subsample_backward<number, VX, VY>(at, pass.samples, dy, dx, pass.s);
      pass.gradients->give(dy);
      return deliver(pass, In, dx, to);
    }

   private:
    std::size_t activation_;
  };
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
  class bound {
    static_assert(Shortcut::out(In) == Body::out(In),
                  "body and shortcut of a residual block must have the same extent: use "
                  "subsample_pad or projection where the body changes it");
    using number = typename B::number;
    using body = typename Body::template bound<B, In>;
    using norm = detail::norm_node<B, Body::out(In), Norm::settings.group, epilogue::add_relu>;
    using shortcut = typename Shortcut::template bound<B, In>;

   public:
    static constexpr extent out = body::out;
    static constexpr std::size_t largest =
        std::max({body::largest, norm::largest, shortcut::largest});

    bound(placement& to) : body_(to), norm_(to), shortcut_(to) {}

    void publish(const publish_pass<B>& pass) const {
      body_.publish(pass);
      norm_.publish(pass);
      shortcut_.publish(pass);
    }
    const number* forward(const forward_pass<B>& pass, const number* x) {
      const number* const z = body_.forward(pass, x);
      return norm_.forward(pass, z, shortcut_.forward(pass, x));
    }
    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to,
                     Ready& ready) {
      number* const dz = pass.gradients->take();
      norm_.gradients(pass, dy, dz);  // from here dy is what the addition received
      number* const dx = shortcut_.backward(pass, dy, to, ready);
      norm_.announce(ready);
      return body_.backward(pass, dz, {.onto = dx, .wanted = to.wanted}, ready);
    }

   private:
    body body_;
    norm norm_;
    shortcut shortcut_;
  };
};

}  // namespace cordee::inline CORDEE_ABI
