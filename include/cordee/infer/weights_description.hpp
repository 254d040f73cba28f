// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a file of weights knows of the data they were trained on, for programs that predict: the
// names of the classes and the normalization of the images, which `save` writes beside the weights
// (train/input/data_description.hpp has their form).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/input/data_description.hpp>
#include <cordee/train/input/name_list.hpp>

namespace cordee::inline CORDEE_ABI {

/// What read_weights_description finds in a file of weights.
struct weights_description {
  std::vector<std::string> class_names;  ///< In the order of the logits; empty: not in the file.
  std::optional<cordee::normalize> normalize;  ///< Of the images; none: not in the file.
};

/// Reads the description in a safetensors file; its tensors are not read.
/// @throws error if the file cannot be read or is damaged, and for a mean or deviation that is not
/// one to four finite numbers, or a deviation that is not above 0.
[[nodiscard]] inline weights_description read_weights_description(const std::string& path) {
  weights_description out;
  std::vector<double> mean, deviation;
  const auto file = detail::io::tensor_file::open(path);
  for (const auto& [key, value] : file.metadata()) {
    if (key == "classes") {
      if (!value.empty())
        out.class_names = detail::train::to_vector(detail::train::names_in(value));
    } else if (key == "mean" || key == "deviation") {
      auto& numbers = key == "mean" ? mean : deviation;
      const auto spaces = static_cast<int>(std::ranges::count(value, ' '));
      numbers = detail::train::numbers_in(value, spaces + 1);
      if (numbers.empty() || numbers.size() > 4)
        throw error(concat(path, ": its metadata \"", key, "\" are not one to four numbers: write ",
                           "them again with save"));
    }
  }
  if (mean.empty() && deviation.empty()) return out;
  if (mean.size() != deviation.size())
    throw error(concat(path, ": its metadata have ", mean.size(), " numbers of \"mean\" and ",
                       deviation.size(), " of \"deviation\": write them again with save"));
  out.normalize.emplace();
  for (std::size_t c = 0; c < mean.size(); ++c) {
    if (!detail::core::isfinite(mean[c]) || !detail::core::isfinite(deviation[c]) ||
        deviation[c] <= 0)
      throw error(concat(path, ": its metadata have the mean ", mean[c], " and the deviation ",
                         deviation[c], " of channel ", c,
                         ": both must be finite, the deviation above 0"));
    out.normalize->mean[c] = mean[c];
    out.normalize->deviation[c] = deviation[c];
  }
  return out;
}

}  // namespace cordee::inline CORDEE_ABI
