// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Converts bytes to numbers with mean 0 and standard deviation 1 in each channel.
//
//   x = (byte / 255 - mean) / deviation
//
// Kernels apply it when they read a batch; the loader passes on the eight numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mean and standard deviation of each channel, relative to the range 0 .. 1, as published. The
/// default leaves byte / 255 unchanged.
struct normalize {
  std::array<double, 4> mean{};  ///< Mean of each channel. Range: finite, else usage_error.
  /// Standard deviation of each channel; 0 counts as 1. Range: finite, above 0 for all channels of
  /// the images or 0 for all, else usage_error.
  std::array<double, 4> deviation{};

  /// The numbers that kernels apply. @throws usage_error for numbers that are not finite, and for a
  /// deviation that is negative, is 0 before a positive one, or is so small that 1 / deviation is
  /// infinite.
  [[gnu::cold]] operator normalization() const {  // NOLINT: implicit, for loader's argument
    constexpr double most = detail::core::limits<float>::max();
    normalization n;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      expects(detail::core::abs(mean[c]) <= most, "normalize: a mean is NaN or infinite");
      expects(deviation[c] >= 0 && detail::core::isfinite(deviation[c]),
              "normalize: a deviation is negative, NaN or infinite");
      expects(c == 0 || deviation[c] == 0 || deviation[c - 1] > 0,
              "normalize: a channel's deviation is 0, and a later channel's is not");
      const double scale = deviation[c] > 0 ? 1 / deviation[c] : 1;
      expects(scale <= most, "normalize: a deviation is so small that 1 / deviation is infinite");
      n.mean[c] = static_cast<float>(mean[c]);
      n.scale[c] = static_cast<float>(scale);
    }
    return n;
  }
  /// Checks that all or none of so many channels have a deviation. @throws usage_error.
  void expect_covers(int channels) const {
    expects(
        channels < 1 || deviation[0] == 0 || deviation[static_cast<std::size_t>(channels) - 1] > 0,
        "normalize: a deviation of 0: give one for each channel of the images, or none");
  }

  /// Mean and standard deviation of each channel over all pixels of a data set, from exact integer
  /// sums. A constant channel has deviation 1. @throws usage_error for an empty data set, or for
  /// more than four channels.
  template <Dataset S>
  [[nodiscard]] static normalize measured(const S& dataset) {
    const extent image = dataset.image();
    expects(image.channels <= 4, "normalize: more than four channels");
    expects(dataset.size() > 0, "normalize: the data set is empty");
    std::array<std::uint64_t, 4> sums{}, squares{};
    std::vector<std::uint8_t> pixels(image.size());
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      dataset.read(i, pixels);
      for (std::size_t k = 0; k < pixels.size(); ++k) {
        const std::uint64_t x = pixels[k];
        sums[k / image.pixels()] += x;
        squares[k / image.pixels()] += x * x;
      }
    }
    const double n = static_cast<double>(dataset.size()) * static_cast<double>(image.pixels());
    normalize result;
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
      const double mean = static_cast<double>(sums[c]) / n;
      const double variance = static_cast<double>(squares[c]) / n - mean * mean;
      result.mean[c] = mean / 255;
      result.deviation[c] = variance > 0 ? detail::core::sqrt(variance) / 255 : 1;
    }
    return result;
  }

  /// Statistics of ImageNet's training images, in the order red, green, blue, as published by
  /// torchvision.
  [[nodiscard]] static normalize imagenet() {
    return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  }
  /// Statistics of CIFAR-10's training images. Other published deviations, 0.2023, 0.1994, 0.2010,
  /// are means of each image's own.
  [[nodiscard]] static normalize cifar10() {
    return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  }
  /// Statistics of CIFAR-100's training images.
  [[nodiscard]] static normalize cifar100() {
    return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  }
  /// Statistics of MNIST's training images.
  [[nodiscard]] static normalize mnist() { return {{0.1307}, {0.3081}}; }
  /// Statistics of Fashion-MNIST's training images.
  [[nodiscard]] static normalize fashion_mnist() { return {{0.2860}, {0.3530}}; }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    std::string means, deviations;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      means += concat(c == 0 ? "" : " ", mean[c]);
      deviations += concat(c == 0 ? "" : " ", deviation[c] > 0 ? deviation[c] : 1);
    }
    return concat("mean ", means, ", deviation ", deviations);
  }
};

}  // namespace cordee::inline CORDEE_ABI
