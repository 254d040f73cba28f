// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a trained network's layers, of which integers are made: finite, or refused by the
// layer's name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/infer/program/layer_list.hpp>
#include <cordee/nn/quantization.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/fold_batch_norm.hpp>
#include <cordee/ops/quantize.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Functions throw error that names the layer whose numbers are not finite.
class trained_numbers {
 public:
  /// `plane`: weights, running statistics and ranges.
  explicit trained_numbers(std::span<const float> plane) : plane_(plane) {}

  [[noreturn]] static void refuse(const listed_layer& layer, std::string_view reason) {
    throw error(concat("layer \"", layer.name, "\" has no form in integers: ", reason));
  }
  [[nodiscard]] ops::affine_quantizer<float> input_quantizer(const listed_layer& layer) const {
    const float low = plane_[layer.range->offset], high = plane_[layer.range[1].offset];
    if (!(low <= high)) nn::throw_unknown_range(layer.name);
    const auto k = ops::fit_affine(low, high, ops::unsigned_bytes);
    if (!std::isfinite(k.scale)) refuse(layer, "the range of its input is not finite");
    return k;
  }
  /// Quantizes a layer's filters; returns their scales.
  template <class Q>
  std::vector<double> quantize(const listed_layer& layer, std::vector<Q>& q, std::size_t filters,
                               int bits) const {
    q.resize(layer.weights->size);
    const std::size_t filter_size = q.size() / filters;
    std::vector<double> scales;
    for (std::size_t k = 0; k < filters; ++k) {
      const float scale = ops::quantize_channel(
          filter_size, plane_.data() + layer.weights->offset + k * filter_size,
          q.data() + k * filter_size, bits);
      if (!std::isfinite(scale)) refuse(layer, "its weights are not finite");
      scales.push_back(static_cast<double>(scale));
    }
    return scales;
  }
  [[nodiscard]] std::vector<double> bias(const listed_layer& layer) const {
    std::vector<double> numbers = read(*layer.bias);
    for (const double b : numbers)
      if (!std::isfinite(b)) refuse(layer, "its bias is not finite");
    return numbers;
  }
  /// Folds a batch norm into the scales of filters.
  void fold(const listed_layer& norm, std::vector<double>& scales,
            std::vector<double>& bias) const {
    const auto gamma = read(*norm.norm), beta = read(norm.norm[1]), mean = read(*norm.statistics),
               variance = read(norm.statistics[1]);
    ops::fold_batch_norm(scales.size(), 1, gamma.data(), beta.data(), mean.data(), variance.data(),
                         ops::batch_norm_problem::epsilon, scales.data(), bias.data());
    for (std::size_t k = 0; k < scales.size(); ++k)
      if (!std::isfinite(scales[k]) || !std::isfinite(bias[k]))
        refuse(norm, "its batch norm is not finite");
  }
  /// The largest |gamma| + |beta| of a batch norm: what its outputs usually are.
  [[nodiscard]] double usual_output(const listed_layer& norm) const {
    const auto gamma = read(*norm.norm), beta = read(norm.norm[1]);
    double largest = 0;
    for (std::size_t k = 0; k < gamma.size(); ++k)
      largest = std::max(largest, std::abs(gamma[k]) + std::abs(beta[k]));
    return largest;
  }

 private:
  [[nodiscard]] std::vector<double> read(const segment& s) const {
    return {plane_.begin() + static_cast<std::ptrdiff_t>(s.offset),
            plane_.begin() + static_cast<std::ptrdiff_t>(s.end())};
  }

  std::span<const float> plane_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
