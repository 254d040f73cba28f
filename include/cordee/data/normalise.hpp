// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes to numbers of mean 0 and deviation 1 in each channel: (byte / 255 - mean) / deviation.
//
// Kernels do it when they read a batch; the loader only carries the eight numbers along.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

/// In units of the whole range, 0 .. 1, as papers print them. Channels that are not named stay as
/// they are.
struct normalise {
  std::array<double, 4> mean{};
  std::array<double, 4> deviation{};  // 0: not named, counts as 1

  operator normalisation() const {  // NOLINT: the words of a user for those of a kernel
    normalisation n;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      expects(deviation[c] >= 0, "normalise: a deviation is negative");
      n.mean[c] = static_cast<float>(mean[c]);
      n.scale[c] = static_cast<float>(deviation[c] > 0 ? 1 / deviation[c] : 1);
    }
    return n;
  }

  /// Mean and deviation of every channel over all pixels of a data set; sums are of whole numbers,
  /// hence exact. A channel that is the same everywhere keeps deviation 1.
  template <Dataset S>
  [[nodiscard]] static normalise measured(const S& dataset) {
    const extent image = dataset.image();
    expects(image.channels <= 4, "normalise: more than four channels");
    expects(dataset.size() > 0, "normalise: the data set is empty");
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
    normalise found;
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
      const double mean = static_cast<double>(sums[c]) / n;
      const double variance = static_cast<double>(squares[c]) / n - mean * mean;
      found.mean[c] = mean / 255;
      found.deviation[c] = variance > 0 ? std::sqrt(variance) / 255 : 1;
    }
    return found;
  }

  [[nodiscard]] std::string describe() const {
    std::string means, deviations;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      means += text(c == 0 ? "" : " ", mean[c]);
      deviations += text(c == 0 ? "" : " ", deviation[c] > 0 ? deviation[c] : 1);
    }
    return text("mean ", means, ", deviation ", deviations);
  }
};

}  // namespace cordee::inline CORDEE_ABI
