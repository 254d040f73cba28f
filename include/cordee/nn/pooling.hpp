// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The global average pool: every channel becomes the mean of its pixels.
#pragma once

#include <cordee/nn/layer.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI {

struct global_average_pool {
  static constexpr extent out(const extent& in) { return {in.channels, 1, 1}; }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  class bound {
    using real = typename B::real;
    static constexpr int V = B::block(In.channels);

   public:
    static constexpr extent out = global_average_pool::out(In);
    static constexpr std::size_t largest = B::numbers(In);

    bound(placement& to) : activation_(to.activation++) {}
    void publish(const real*, real*, typename B::stream) const {}

    const real* forward(const forward_pass<B>& pass, const real* x) {
      real* const y = pass.room(activation_, B::numbers(out));
      average_pool_forward<real, V>(In, pass.samples, x, y, pass.s);
      return y;
    }
    template <class Ready>
    real* backward(const backward_pass<B>& pass, real* dy, destination<real> to, Ready&) {
      real* dx = pass.gradients->take();
      average_pool_backward<real, V>(In, pass.samples, dy, dx, pass.s);
      pass.gradients->give(dy);
      return deliver(pass, In, dx, to);
    }

   private:
    std::size_t activation_;
  };
};

}  // namespace cordee::inline CORDEE_ABI
