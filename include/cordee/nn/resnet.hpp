// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Residual networks by their depth (He et al., 2016), named as in torchvision.
//
//   18, 34, 50, 101, 152                   ImageNet's family   (nn/resnet_imagenet.hpp)
//   8, 20, 32, 44, 56, 110: any 6n + 2     CIFAR's family      (nn/resnet_cifar.hpp)
//
// 50 and 152 are of the form 6n + 2 and still mean what everybody means by them.
#pragma once

#include <cordee/nn/model.hpp>
#include <cordee/nn/resnet_cifar.hpp>
#include <cordee/nn/resnet_imagenet.hpp>
#include <cordee/ops/convolution_winograd.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

constexpr bool is_imagenet(int depth) { return imagenet_plan_of(depth).depth != 0; }

/// A depth with the family's own where `Said` says nothing; layers are named by the family.
template <int Depth, shape Said, bool Imagenet = is_imagenet(Depth)>
struct resnet_of {
  static_assert(Depth >= 8 && (Depth - 2) % 6 == 0,
                "there is no residual network of this depth: CIFAR's have 6n + 2 layers (8, 20, "
                "32, 44, 56 or 110), ImageNet's 18, 34, 50, 101 or 152");
  static constexpr shape said = cifar_shape(Said);
  using layers = typename cifar_blocks<said>::template layers<(Depth - 2) / 6>;
};

template <int Depth, shape Said>
struct resnet_of<Depth, Said, true> {
  static_assert(Said.stem != stem::usual || Said.image == extent{} ||
                    (Said.image.height >= 64 && Said.image.width >= 64),
                "below 64 pixels a side the usual stem leaves ImageNet's networks a single pixel: "
                "say .stem = stem::small, or stem::large if that is meant");
  static constexpr shape said = imagenet_shape(Said);
  using layers = typename imagenet_blocks<said>::template layers<imagenet_plan_of(Depth)>;
};

}  // namespace detail

template <int Depth, shape S>
struct resnet_layers : detail::resnet_of<Depth, S>::layers {
  /// S with the family's own where nothing was said.
  static constexpr shape settled = detail::resnet_of<Depth, S>::said;
};

template <int Depth, Precision P, Device D, shape S = shape{},
          class Engine = typename engine_for<D, P>::type>
struct resnet
    : network<resnet_layers<Depth, S>, P, D, Engine, resnet_layers<Depth, S>::settled.image,
              resnet_layers<Depth, S>::settled.classes> {
  using layers = resnet_layers<Depth, S>;
  using network<layers, P, D, Engine, layers::settled.image, layers::settled.classes>::network;
};

}  // namespace cordee::inline CORDEE_ABI
