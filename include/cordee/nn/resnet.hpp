// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The CIFAR family of residual networks (He et al., 2016): depth 6n + 2, a 3x3 stem, three stages
// of n blocks with 16, 32 and 64 channels, the mean over pixels, a linear classifier.
#pragma once

#include <cordee/nn/linear.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/ops/convolution_direct.hpp>

namespace cordee::inline CORDEE_ABI {

/// How a block passes its input where the channels double: every second pixel and zeros, or a
/// convolution of one pixel.
enum class shortcut { a, b };

struct shape {
  extent image{3, 32, 32};
  int classes = 10;
  cordee::shortcut shortcut = cordee::shortcut::a;
  int group = 0;           // batch norm over so many samples, 0: the batch
  bool zero_gamma = true;  // blocks begin as the identity
};

namespace detail {

template <shape S>
struct cifar_blocks {
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

template <int Depth, shape S>
struct resnet_layers : detail::cifar_blocks<S>::template layers<(Depth - 2) / 6> {
  static_assert(Depth >= 8 && (Depth - 2) % 6 == 0,
                "a CIFAR ResNet has a depth of 6n + 2: 8, 20, 32, 44, 56 or 110");
};

template <int Depth, Precision P, Device D, shape S = shape{}, class Engine = direct>
struct resnet : network<resnet_layers<Depth, S>, P, D, Engine, S.image, S.classes> {
  using network<resnet_layers<Depth, S>, P, D, Engine, S.image, S.classes>::network;
};

}  // namespace cordee::inline CORDEE_ABI
