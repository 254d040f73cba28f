// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The rectifier, y = max(x, 0), and doing nothing. Each is a layer, and the name of what a batch
// norm does to its result before storing it.
#pragma once

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {

struct identity {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  class bound {
    using number = typename B::number;

   public:
    static constexpr extent out = In;
    static constexpr std::size_t largest = B::numbers(In);

    bound(placement&) {}
    void publish(const publish_pass<B>&) const {}
    const number* forward(const forward_pass<B>&, const number* x) { return x; }
    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
      return deliver(pass, In, dy, to);
    }
  };
};

struct relu {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  class bound {
    using number = typename B::number;

   public:
    static constexpr extent out = In;
    static constexpr std::size_t largest = B::numbers(In);

    bound(placement& to) : activation_(to.activation++) {}
    void publish(const publish_pass<B>&) const {}

    const number* forward(const forward_pass<B>& pass, const number* x) {
      number* const y = pass.room(activation_, B::numbers(In));
      relu_forward(static_cast<std::size_t>(pass.samples) * B::numbers(In), x, y, pass.s);
      return y_ = y;
    }
    template <class Ready>
    number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
      relu_backward(static_cast<std::size_t>(pass.samples) * B::numbers(In), y_, dy, pass.s);
      return deliver(pass, In, dy, to);
    }

   private:
    std::size_t activation_;
    const number* y_ = nullptr;
  };
};

}  // namespace cordee::inline CORDEE_ABI
