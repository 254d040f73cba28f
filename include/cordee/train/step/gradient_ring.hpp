// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A device's memory for the gradients of two neighboring buckets at a time (host_update.hpp).
//
//   | bucket 0, 2, 4 ... ->        <- bucket 1, 3, 5 ... |      as large as two neighbors need
//
// A bucket that begins before the one two before it is done gets memory of its own, for good. Where
// gradients are rounded, as many numbers of the narrower type follow.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cordee/core/segment.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/train/step/host_buckets.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Ring for buckets that outlive it, with `width` bytes a number.
template <class Real, class D>
class gradient_ring {
 public:
  [[gnu::cold]] gradient_ring(const D& device, std::span<const bucket> buckets, std::size_t width)
      : device_(device), buckets_(buckets), width_(width), capacity_(largest_pair(buckets)) {
    own_.resize(buckets.size());
  }
  /// Allocates the ring; before, there is none.
  [[gnu::cold]] void allocate() { ring_ = buffer<std::byte, D>(device_, capacity_ * width_); }

  /// The gradients of bucket k.
  [[nodiscard]] span_on<Real, D> slot(std::size_t k) {
    return {reinterpret_cast<Real*>(memory_of(k, sizeof(Real), 0)), buckets_[k].size};
  }
  /// Its gradients as rounded numbers. Requires a width of both types together.
  template <class Number>
  [[nodiscard]] Number* rounded(std::size_t k) {
    return reinterpret_cast<Number*>(
        memory_of(k, sizeof(Number), has_own(k) ? buckets_[k].size : capacity_));
  }
  /// Whether bucket k has memory of its own.
  [[nodiscard]] bool has_own(std::size_t k) const { return own_[k].size() > 0; }
  /// Gives it some.
  [[gnu::cold, gnu::noinline]] void allocate_own(std::size_t k) {
    own_[k] = buffer<std::byte, D>(device_, buckets_[k].size * width_);
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t n = ring_.size();
    for (const auto& x : own_) n += x.size();
    return n;
  }

 private:
  // Memory of bucket k as numbers of `width` bytes, behind `behind` of type Real.
  [[nodiscard]] std::byte* memory_of(std::size_t k, std::size_t width, std::size_t behind) {
    if (has_own(k)) return own_[k].span().data + behind * sizeof(Real);
    const std::size_t at = k % 2 == 0 ? 0 : capacity_ - buckets_[k].size;
    return ring_.span().data + behind * sizeof(Real) + at * width;
  }

  D device_;
  std::span<const bucket> buckets_;
  std::size_t width_, capacity_;           // bytes of a number; numbers
  buffer<std::byte, D> ring_;              // (capacity_) Real, then numbers if they are rounded
  std::vector<buffer<std::byte, D>> own_;  // of buckets that begin too early for the ring
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
