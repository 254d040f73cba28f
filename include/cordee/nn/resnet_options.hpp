// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options of a residual network beside its depth.
#pragma once

#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI {

/// The shortcut of a block whose channels change: a, every second pixel and zeros; b, a 1x1
/// convolution. The default is a in CIFAR's family, b in ImageNet's.
enum class shortcut { family_default, a, b };

/// The first layers of ImageNet's family: `large` is a 7x7 convolution of stride 2 and a 3x3 max
/// pool of stride 2, `small` a 3x3 convolution of stride 1 without pool, for small images. The
/// default is large for any image, as in torchvision, and an error below 64 pixels a side, where
/// the last stage would have a single pixel. CIFAR's family always has a small stem.
enum class stem { family_default, large, small };

/// Zeros for image and classes mean the family's defaults: 3x32x32 and 10 for CIFAR, 3x224x224 and
/// 1000 for ImageNet.
struct resnet_options {
  extent image{};
  int classes = 0;
  cordee::shortcut shortcut = cordee::shortcut::family_default;
  int ghost_batch = 0;     // samples in a batch norm's statistics, 0: the batch
  bool zero_gamma = true;  // blocks are the identity initially
  cordee::stem stem = cordee::stem::family_default;
  bool dropout = false;  // before the classifier, of the network's dropout_rate

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
