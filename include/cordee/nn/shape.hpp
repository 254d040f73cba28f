// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a residual network may be told beside its depth.
#pragma once

#include <cordee/core/extent.hpp>

namespace cordee::inline CORDEE_ABI {

/// How a block passes its input where the channels change: every second pixel and zeros, or a
/// convolution of one pixel. `usual`: a for CIFAR's family, b for ImageNet's.
enum class shortcut { usual, a, b };

/// How ImageNet's family begins: `large` is a 7x7 convolution of stride 2 and a 3x3 max pool of
/// stride 2, `small` a 3x3 convolution of stride 1 and no pool, for images of few pixels. `usual`
/// is large whatever the image, as in torchvision, and refused below 64 pixels a side, where it
/// leaves the last stage a single pixel. CIFAR's family is always small.
enum class stem { usual, large, small };

/// Zeros for image and classes mean the family's own: CIFAR's 3x32x32 and 10, ImageNet's 3x224x224
/// and 1000.
struct shape {
  extent image{};
  int classes = 0;
  cordee::shortcut shortcut = cordee::shortcut::usual;
  int group = 0;           // batch norm over so many samples, 0: the batch
  bool zero_gamma = true;  // blocks begin as the identity
  cordee::stem stem = cordee::stem::usual;

  /// The same with the family's own where nothing was said.
  [[nodiscard]] constexpr shape filled(const extent& usual_image, int usual_classes,
                                       cordee::shortcut usual_shortcut,
                                       cordee::stem usual_stem) const {
    shape all = *this;
    if (image == extent{}) all.image = usual_image;
    if (classes == 0) all.classes = usual_classes;
    if (shortcut == cordee::shortcut::usual) all.shortcut = usual_shortcut;
    if (stem == cordee::stem::usual) all.stem = usual_stem;
    return all;
  }
};

}  // namespace cordee::inline CORDEE_ABI
