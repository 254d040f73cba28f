// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One allocation of parallel planes: master weights, gradients, the slots of optimizer and reducer.
// Everything that a training run changes is stored here, but for gradients in memory of the
// transport (train/planes.hpp); a parameter has the same offset in every plane.
#pragma once

#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Real, Device D>
class arena {
 public:
  /// `planes` planes of the table's segments, zero initially.
  arena(const D& device, std::span<const segment> table, int planes)
      : plane_size_(size_of_plane(table)),
        planes_(planes),
        memory_(device, plane_size_ * static_cast<std::size_t>(planes)) {}

  /// Numbers in a plane of these segments.
  [[nodiscard]] static std::size_t size_of_plane(std::span<const segment> table) {
    return table.empty() ? 0 : table.back().offset + detail::core::align_up(table.back().size);
  }
  [[nodiscard]] int planes() const { return planes_; }
  [[nodiscard]] std::size_t plane_size() const { return plane_size_; }
  [[nodiscard]] span_on<Real, D> plane(int index) {
    expects(index >= 0 && index < planes_, "arena: the index of a plane is 0 .. planes() - 1");
    return memory_.span().subspan(static_cast<std::size_t>(index) * plane_size_, plane_size_);
  }

 private:
  std::size_t plane_size_;
  int planes_;
  buffer<Real, D> memory_;
};

}  // namespace cordee::inline CORDEE_ABI
