// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a layer's backward pass has of each sample, for optimizers that use more than the sum of the
// samples' gradients (train/kfac/kfac.hpp).
//
// The observer is a part of the type of `ready`, which every node's backward gets as a template
// argument: without one no line below is instantiated. A node calls observe(segment, samples) with
// its weight's segment when it has computed the weight's gradient, while x and dy are in memory.
// Output gradients dy contain the loss weight (batch::loss_weight()). On the CPU.
#pragma once

#include <cstddef>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/linear_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

template <class N>
struct linear_samples {
  ops::linear_problem problem;
  int count;
  const N* x;   // (count, pitch)
  const N* dy;  // (count, outputs)
};

template <class N>
struct convolution_samples {
  convolution_problem problem;
  int count, x_block, dy_block;
  const N* x;   // (count, C / x_block, H, W, x_block)
  const N* dy;  // (count, K / dy_block, H', W', dy_block)
};

/// Per-sample gradients of a batch norm's parameters.
struct batch_norm_samples {
  int channels, count;
  std::size_t pitch;
  const double* beta;   // (count, pitch): the sum of dy over a sample's pixels
  const double* gamma;  // (count, pitch): that of dy h
};

/// ready(k), and observer.observe(k, samples).
template <class F, class Observer>
struct observed_ready {
  F ready;
  Observer& observer;

  void operator()(std::size_t k) const { ready(k); }
  template <class Samples>
  void observe(std::size_t k, const Samples& samples) const {
    observer.observe(k, samples);
  }
};
template <class F, class Observer>  // clang 16 does not deduce an aggregate's arguments
observed_ready(F, Observer&) -> observed_ready<F, Observer>;

template <class Ready>
inline constexpr bool is_observed = false;
template <class F, class Observer>
inline constexpr bool is_observed<observed_ready<F, Observer>> = true;
template <class F, class Observer>
inline constexpr bool is_observed<const observed_ready<F, Observer>> = true;

/// f, with the observer of `ready` if that has one.
template <class Ready, class F>
auto with_observer_of(const Ready& ready, const F& f) {
  if constexpr (is_observed<Ready>)
    return observed_ready{f, ready.observer};
  else
    return f;
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
