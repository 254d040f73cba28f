// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a residual network besides its depth.
#pragma once

#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI {

/// The shortcut of a block that changes the extent (He et al., 2016).
enum class shortcut {
  family_default,  ///< a in the CIFAR family, b in the ImageNet family.
  a,               ///< subsample_pad. In the ImageNet family a compile error.
  b                ///< projection.
};

/// The first layers of a residual network.
enum class stem {
  /// `small` in the CIFAR family, `large` in the ImageNet family, as in torchvision. In the latter,
  /// images below 64 pixels a side, for which the last stage would have a single pixel, are a
  /// compile error.
  family_default,
  large,  ///< 7x7 convolution and 3x3 max pool, of stride 2 each. Not in the CIFAR family.
  small   ///< 3x3 convolution of stride 1, for small images.
};

/// Options of a residual network, a template argument.
struct resnet_options {
  /// Extent of the images. Range: 1 to 4 channels, else a compile error. Default: 3x32x32 in the
  /// CIFAR family, 3x224x224 in the ImageNet family.
  extent image{};
  /// Number of classes. Range: 0 or more, else a compile error. Default: 10 in the CIFAR family,
  /// 1000 in the ImageNet family.
  int classes = 0;
  /// Shortcut of blocks that change the extent.
  cordee::shortcut shortcut = cordee::shortcut::family_default;
  /// Samples that a batch norm's statistics are computed over; 0: the whole batch. Unit: samples.
  /// Range: 0 or more, else a compile error.
  int ghost_batch = 0;
  /// Whether blocks are initially the identity. Default: as Goyal et al. 2017.
  bool zero_gamma = true;
  cordee::stem stem = cordee::stem::family_default;  ///< First layers.
  /// Whether there is dropout before the classifier, with the network's `dropout_rate`.
  bool dropout = false;
  /// Whether backward recomputes the activations of the ImageNet stem and of each block, with the
  /// same bits: this saves memory at the cost of nearly one more forward pass (recompute.hpp). Not
  /// in int8, a compile error.
  bool recompute = false;
  /// Whether the packed weights of stem, blocks and classifier are on a GPU only while used, and in
  /// host memory otherwise, with the same bits (offload_weights.hpp).
  bool offload_weights = false;
  /// Whether the activations of the ImageNet stem and of each block are kept in page-locked host
  /// memory between forward and backward on a GPU, with the same bits (offload_activations.hpp).
  /// Not in int8 or with recompute, compile errors.
  bool offload_activations = false;

  /// A copy with defaults for unset options.
  [[nodiscard]] constexpr resnet_options with_defaults(const extent& default_image,
                                                       int default_classes,
                                                       cordee::shortcut default_shortcut,
                                                       cordee::stem default_stem) const {
    resnet_options options = *this;
    if (image == extent{}) options.image = default_image;
    if (classes == 0) options.classes = default_classes;
    if (shortcut == cordee::shortcut::family_default) options.shortcut = default_shortcut;
    if (stem == cordee::stem::family_default) options.stem = default_stem;
    return options;
  }
};

}  // namespace cordee::inline CORDEE_ABI
