// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The global average pool, every channel becomes the mean of its pixels, and the max pool, every
// window its largest number (ops/pooling.hpp).
#pragma once

#include <cordee/nn/layer.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class B, int V>
class average_pool_node {
  using number = typename B::number;

 public:
  average_pool_node(const extent& in, placement& to) : in_(in), activation_(to.activation++) {
    to.meet(B::numbers(in));
  }
  void publish(const publish_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    number* const y = pass.room(activation_, B::numbers({in_.channels, 1, 1}));
    average_pool_forward<number, V>(in_, pass.samples, x, y, pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
    number* dx = pass.gradients->take();
    average_pool_backward<number, V>(in_, pass.samples, dy, dx, pass.s);
    pass.gradients->give(dy);
    return deliver(pass, in_, dx, to);
  }

 private:
  extent in_;
  std::size_t activation_;
};

template <class B, int V>
class max_pool_node {
  using number = typename B::number;

 public:
  max_pool_node(const max_pool_problem& problem, placement& to)
      : problem_(problem), activation_(to.activation) {
    to.activation += 2;
    to.meet(std::max(B::numbers(problem.in), B::numbers(problem.out())));
  }
  void publish(const publish_pass<B>&) const {}

  const number* forward(const forward_pass<B>& pass, const number* x) {
    const std::size_t numbers = B::numbers(problem_.out());
    number* const y = pass.room(activation_, numbers);
    where_ = pass.store->template room<std::uint8_t>(
        activation_ + 1, static_cast<std::size_t>(pass.samples) * numbers);
    max_pool_forward<number, V>(problem_, pass.samples, x, y, where_, pass.s);
    return y;
  }
  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready&) {
    number* dx = nullptr;
    if (to.wanted) {
      dx = to.onto != nullptr ? to.onto : pass.gradients->take();
      max_pool_backward<number, V>(problem_, pass.samples, dy, where_, dx,
                                   to.onto != nullptr ? into::add : into::overwrite, pass.s);
    }
    pass.gradients->give(dy);
    return dx;
  }

 private:
  max_pool_problem problem_;
  std::size_t activation_;
  std::uint8_t* where_ = nullptr;
};

}  // namespace detail

struct global_average_pool {
  static constexpr extent out(const extent& in) { return {in.channels, 1, 1}; }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  static auto bind(placement& to) {
    return detail::average_pool_node<B, B::block(In.channels)>(In, to);
  }
};

/// Padded by half its window where that is odd, as in ResNets. The padding is never the maximum.
template <int Window = 3, int Stride = 2, int Padding = (Window - 1) / 2>
struct max_pool {
  static_assert(Window > 0 && Window <= max_pool_problem::largest_window && Stride > 0,
                "a max pool needs a window of 1 to 16 pixels and a positive stride");
  static_assert(
      Padding >= 0 && 2 * Padding <= Window,
      "a max pool is padded by half its window at most, so that each window sees a pixel");

  static constexpr max_pool_problem problem(const extent& in) {
    return {in, Window, Stride, Padding};
  }
  static constexpr extent out(const extent& in) { return problem(in).out(); }
  static constexpr void describe(const extent&, catalogue&) {}

  template <class B, extent In>
  static auto bind(placement& to) {
    static_assert(In.height + 2 * Padding >= Window && In.width + 2 * Padding >= Window,
                  "a max pool's window is larger than its padded image: use a larger image or a "
                  "smaller window");
    return detail::max_pool_node<B, B::block(In.channels)>(problem(In), to);
  }
};

}  // namespace cordee::inline CORDEE_ABI
