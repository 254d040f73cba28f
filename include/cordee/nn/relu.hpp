// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The rectifier, y = max(x, 0), and doing nothing. Each is a layer, and the name of what a batch
// norm does to its result before storing it.
#pragma once

#include <cordee/nn/layer.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B>
class identity_node {
  using number = typename B::number;

 public:
  identity_node(const extent& at, placement& to) : at_(at) { to.meet(B::numbers(at)); }
  void publish(const publish_pass<B>&) const {}

  const number* forward(const forward_pass<B>&, const number* x) { return x; }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
    return deliver(pass, at_, dy, to);
  }

 private:
  extent at_;
};

template <class B>
class relu_node {
  using number = typename B::number;

 public:
  relu_node(const extent& at, placement& to) : at_(at), activation_(to.activation++) {
    to.meet(B::numbers(at));
  }
  void publish(const publish_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, B::numbers(at_));
    relu_forward(static_cast<std::size_t>(pass.samples) * B::numbers(at_), x, y, pass.s);
    return y_ = y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
    relu_backward(static_cast<std::size_t>(pass.samples) * B::numbers(at_), y_, dy, pass.s);
    return deliver(pass, at_, dy, to);
  }

 private:
  extent at_;
  std::size_t activation_;
  const number* y_ = nullptr;
};

}  // namespace detail

struct identity {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, catalogue&) {}
  template <class B, extent In>
  static auto bind(placement& to) {
    return detail::identity_node<B>(In, to);
  }
};

struct relu {
  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent&, catalogue&) {}
  template <class B, extent In>
  static auto bind(placement& to) {
    return detail::relu_node<B>(In, to);
  }
};

}  // namespace cordee::inline CORDEE_ABI
