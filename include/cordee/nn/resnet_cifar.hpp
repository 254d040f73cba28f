// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CIFAR family of residual networks (He et al., 2016): depth 6n + 2, a 3x3 stem, three stages
// of n blocks with 16, 32 and 64 channels, the mean over pixels, a linear classifier.
#pragma once

#include <type_traits>

#include <cordee/nn/linear.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/shape.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

constexpr shape cifar_shape(const shape& said) {
  return said.filled({3, 32, 32}, 10, shortcut::a, stem::small);
}

/// S is filled.
template <shape S>
struct cifar_blocks {
  static_assert(S.stem == stem::small,
                "CIFAR's residual networks begin with a 3x3 convolution: leave .stem out, or take "
                "one of ImageNet's, 18, 34, 50, 101 or 152 layers deep");

  using norm_relu = batch_norm<relu, norm_settings{1, S.group}>;
  using last_norm = batch_norm<identity, norm_settings{S.zero_gamma ? 0 : 1, S.group}>;

  template <int Channels, int Stride, class Shortcut>
  using block =
      residual<sequential<convolution<Channels, 3, Stride>, norm_relu, convolution<Channels, 3>>,
               last_norm, Shortcut>;
  template <int Channels>
  using narrowing = block<Channels, 2,
                          std::conditional_t<S.shortcut == shortcut::a, subsample_pad<Channels>,
                                             projection<Channels, 2, S.group>>>;
  template <int Channels, int Times>
  using equal = repeat<Times, block<Channels, 1, identity>>;

  template <int N>
  using layers =
      sequential<convolution<16, 3>, norm_relu, stage<equal<16, N>>,
                 stage<narrowing<32>, equal<32, N - 1>>, stage<narrowing<64>, equal<64, N - 1>>,
                 global_average_pool, linear<S.classes>>;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
