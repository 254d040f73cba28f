// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Residual networks by depth (He et al., 2016), with torchvision's names of parameters.
//
//   18, 34, 50, 101, 152                   ImageNet family   (nn/resnet_imagenet.hpp)
//   8, 20, 32, 44, 56, 110: any 6n + 2     CIFAR family      (nn/resnet_cifar.hpp)
//
// 50 and 152 also have the form 6n + 2, but are networks of the ImageNet family.
#pragma once

#include <cordee/nn/network.hpp>
#include <cordee/nn/resnet_cifar.hpp>
#include <cordee/nn/resnet_imagenet.hpp>
#include <cordee/ops/engines/amx/amx.hpp>
#include <cordee/ops/engines/winograd/engine.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

constexpr bool is_imagenet(int depth) { return imagenet_plan_of(depth).depth != 0; }

/// The layers of a depth, and the options with the family's defaults filled in.
template <int Depth, resnet_options Options, bool Imagenet = is_imagenet(Depth)>
struct resnet_of {
  static_assert(Depth >= 8 && (Depth - 2) % 6 == 0,
                "there is no residual network of this depth: CIFAR's have 6n + 2 layers (8, 20, "
                "32, 44, 56 or 110), ImageNet's 18, 34, 50, 101 or 152");
  static constexpr resnet_options resolved = cifar_defaults(Options);
  using layers = typename cifar_blocks<resolved>::template layers<(Depth - 2) / 6>;
};

template <int Depth, resnet_options Options>
struct resnet_of<Depth, Options, true> {
  static_assert(
      Options.stem != stem::family_default || Options.image == extent{} ||
          (Options.image.height >= 64 && Options.image.width >= 64),
      "below 64 pixels a side the default stem leaves ImageNet's networks a single pixel: "
      "use .stem = stem::small, or stem::large if that is intended");
  static constexpr resnet_options resolved = imagenet_defaults(Options);
  using layers = typename imagenet_blocks<resolved>::template layers<imagenet_plan_of(Depth)>;
};

template <int Depth, resnet_options S>
struct resnet_layers : resnet_of<Depth, S>::layers {
  /// S with the family's defaults filled in.
  static constexpr resnet_options resolved = resnet_of<Depth, S>::resolved;
};

}  // namespace detail::nn

/// Residual network with cross-entropy. A depth not listed at the header's top is a compile error.
template <int Depth, Precision P, Device D, resnet_options S = resnet_options{},
          class Engine = typename engine_for<D, P>::type>
struct resnet : network<detail::nn::resnet_layers<Depth, S>, P, D, Engine,
                        detail::nn::resnet_layers<Depth, S>::resolved.image,
                        detail::nn::resnet_layers<Depth, S>::resolved.classes> {
  /// The layers; `resolved` is S with the family's defaults.
  using layers = detail::nn::resnet_layers<Depth, S>;
  using network<layers, P, D, Engine, layers::resolved.image, layers::resolved.classes>::network;
};

}  // namespace cordee::inline CORDEE_ABI
