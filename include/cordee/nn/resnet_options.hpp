// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a residual network beside its depth.
#pragma once

#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI {

/// The shortcut of a block that changes the extent (He et al., 2016).
enum class shortcut {
  family_default,  ///< a in CIFAR's family, b in ImageNet's.
  a,               ///< subsample_pad. In ImageNet's family a compile error.
  b                ///< projection.
};

/// The first layers of a residual network.
enum class stem {
  /// `small` in CIFAR's family, `large` in ImageNet's, as in torchvision. There it is a compile
  /// error for images below 64 pixels a side, of which the last stage would have a single pixel.
  family_default,
  large,  ///< 7x7 convolution and 3x3 max pool, of stride 2 each. Not in CIFAR's family.
  small   ///< 3x3 convolution of stride 1, for small images.
};

/// Options of a residual network, a template argument.
struct resnet_options {
  /// Extent of the images. Range: 1 to 4 channels, else a compile error. Default: 3x32x32 in
  /// CIFAR's family, 3x224x224 in ImageNet's.
  extent image{};
  /// Number of classes. Range: 0 or more, else a compile error. Default: 10 in CIFAR's family, 1000
  /// in ImageNet's.
  int classes = 0;
  /// Shortcut of the blocks that change the extent.
  cordee::shortcut shortcut = cordee::shortcut::family_default;
  /// How many samples a batch norm's statistics are over, 0 for the whole batch. Unit: samples.
  /// Range: 0 or more, else a compile error.
  int ghost_batch = 0;
  /// Whether blocks are the identity initially. Default: as Goyal et al. 2017.
  bool zero_gamma = true;
  cordee::stem stem = cordee::stem::family_default;  ///< First layers.
  /// Whether there is dropout before the classifier, of the network's `dropout_rate`.
  bool dropout = false;
  /// Whether backward computes the activations of ImageNet's stem and of each block again, with the
  /// same bits: less memory, for nearly one more forward pass (recompute.hpp). Not in int8, a
  /// compile error.
  bool recompute = false;
  /// Whether the packed weights of stem, blocks and classifier are on a GPU by turns, and in the
  /// host's memory otherwise, with the same bits (offload_weights.hpp).
  bool offload_weights = false;
  /// Whether the activations of ImageNet's stem and of each block are in page-locked host memory
  /// between forward and backward on a GPU, with the same bits (offload_activations.hpp). Not in
  /// int8, nor with recompute, compile errors.
  bool offload_activations = false;

  /// A copy with defaults for the options that are not set.
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
