// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CIFAR family of residual networks (He et al., 2016): depth 6n + 2, a 3x3 stem, three stages
// of n blocks with 16, 32 and 64 channels, the mean over pixels, a linear classifier.
#pragma once

#include <type_traits>

#include <cordee/nn/dropout.hpp>
#include <cordee/nn/offload_activations.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/resnet_options.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

constexpr resnet_options cifar_defaults(const resnet_options& options) {
  return options.with_defaults({3, 32, 32}, 10, shortcut::a, stem::small);
}

/// Requires that S is cifar_defaults of something.
template <resnet_options S>
struct cifar_blocks {
  static_assert(S.stem == stem::small,
                "CIFAR's residual networks have a 3x3 stem: omit .stem, or use one of ImageNet's "
                "depths 18, 34, 50, 101 and 152");

  using norm_relu = batch_norm<relu, batch_norm_options{1, S.ghost_batch}>;
  using last_norm = batch_norm<identity, batch_norm_options{S.zero_gamma ? 0 : 1, S.ghost_batch}>;

  template <int Channels, int Stride, class Shortcut>
  using block = weights_of<S.offload_weights,
                           stored<S, residual<sequential<convolution<Channels, 3, Stride>,
                                                         norm_relu, convolution<Channels, 3>>,
                                              last_norm, Shortcut>>>;
  template <int Channels>
  using downsampling = block<Channels, 2,
                             std::conditional_t<S.shortcut == shortcut::a, subsample_pad<Channels>,
                                                projection<Channels, 2, S.ghost_batch>>>;
  template <int Channels, int Times>
  using equal = repeat<Times, block<Channels, 1, identity>>;

  template <int N, class... Stem>
  using behind = sequential<Stem..., stage<equal<16, N>>, stage<downsampling<32>, equal<32, N - 1>>,
                            stage<downsampling<64>, equal<64, N - 1>>, global_average_pool,
                            weights_of<S.offload_weights, classifier<S.dropout, S.classes>>>;
  template <int N>
  using layers =
      std::conditional_t<S.offload_weights,
                         behind<N, offload_weights<sequential<convolution<16, 3>, norm_relu>>>,
                         behind<N, convolution<16, 3>, norm_relu>>;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
