// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The weights of an antialiased bilinear resize along one axis, from n to m pixels:
//
//   s = n / m,  r = max(s, 1),  c_k = s (k + 1/2)
//   out[k] = sum over j of w_kj in[j],   w_kj ~ max(0, 1 - |j + 1/2 - c_k| / r),  sum_j w_kj = 1
//
// so the filter is stretched where the image shrinks, and cut at the borders. As in Pillow and
// torchvision (v2, uint8) weights are rounded to multiples of 2^-p, here with the largest p <= 22
// for which every weight times 2^p is less than 2^15, as torchvision has it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <cordee/core/config.hpp>
#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// The weights of the outputs begin .. begin + count - 1 of an axis, numbered from 0; of each
/// `taps()` many, for the inputs first(k) .. first(k) + taps() - 1, all of which exist, in units of
/// 2^-precision(). Reuses its memory.
class triangle_filter {
 public:
  /// Requires n, m > 0, 0 <= begin, count > 0, begin + count <= m.
  void prepare(int n, int m, int begin, int count) {
    const double scale = static_cast<double>(n) / m, radius = std::max(scale, 1.0);
    stride_ = 2 * static_cast<int>(std::ceil(radius)) + 1;
    exact_.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(stride_));
    range_.resize(static_cast<std::size_t>(m));
    double largest = 0;  // of the whole axis: a part of it has the same weights
    for (int k = 0; k < m; ++k) largest = std::max(largest, set_exact(k, n, scale, radius));
    taps_ = 0;
    for (int k = begin; k < begin + count; ++k) taps_ = std::max(taps_, range(k).count);
    round_weights(n, begin, count, largest);
  }

  [[nodiscard]] int taps() const { return taps_; }
  [[nodiscard]] int precision() const { return precision_; }
  [[nodiscard]] int outputs() const { return static_cast<int>(first_.size()); }
  [[nodiscard]] int first(int k) const { return first_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] const std::int16_t* weights(int k) const {
    return weights_.data() + static_cast<std::ptrdiff_t>(k) * taps_;
  }
  /// Inputs that the outputs depend on are begin() .. end() - 1.
  [[nodiscard]] int begin() const { return first_[0]; }
  [[nodiscard]] int end() const { return first_.back() + taps_; }

 private:
  struct inputs {
    int first, count;
  };
  [[nodiscard]] inputs range(int k) const { return range_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] double* exact(int k) {
    return exact_.data() + static_cast<std::ptrdiff_t>(k) * stride_;
  }

  /// Returns the largest weight of output k.
  double set_exact(int k, int n, double scale, double radius) {
    const double center = scale * (k + 0.5);
    const int first = std::max(static_cast<int>(center - radius + 0.5), 0);
    const int count =
        std::min({static_cast<int>(center + radius + 0.5), n, first + stride_}) - first;
    double* const w = exact(k);
    double sum = 0, largest = 0;
    for (int j = 0; j < count; ++j) {
      w[j] = std::max(0.0, 1 - std::abs((j + first - center + 0.5) * (1 / radius)));
      sum += w[j];
    }
    for (int j = 0; j < count; ++j) {
      w[j] /= sum;
      largest = std::max(largest, w[j]);
    }
    range_[static_cast<std::size_t>(k)] = {first, count};
    return largest;
  }

  void round_weights(int n, int begin, int count, double largest) {
    int& p = precision_ = 0;
    while (p < 22 && static_cast<int>(0.5 + std::ldexp(largest, p + 1)) < 1 << 15) ++p;
    const double units = std::ldexp(1.0, p);
    weights_.clear();
    weights_.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps_));  // zeros
    first_.resize(static_cast<std::size_t>(count));
    for (int k = 0; k < count; ++k) {
      const inputs in = range(begin + k);
      const int first = std::min(in.first, n - taps_);  // at the end, zeros come before
      first_[static_cast<std::size_t>(k)] = first;
      std::int16_t* const w =
          weights_.data() + static_cast<std::ptrdiff_t>(k) * taps_ + in.first - first;
      for (int j = 0; j < in.count; ++j)
        w[j] = static_cast<std::int16_t>(exact(begin + k)[j] * units + 0.5);
    }
  }

  int taps_ = 0, stride_ = 0, precision_ = 0;
  core::pod_vector<double> exact_;          // (m, stride)
  core::pod_vector<inputs> range_;          // (m)
  core::pod_vector<int> first_;             // (count)
  core::pod_vector<std::int16_t> weights_;  // (count, taps)
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
