// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loader's batches, which are in the host's memory, where the model is.
#pragma once

#include <span>
#include <vector>

#include <cordee/core/protocol.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// Keeps room for one update's micro-batches on the device. What `to` gave holds until the next
/// call; in stream order, so the caller need not wait.
template <Device D>
class upload {
 public:
  explicit upload(const D& device) : device_(device) {}

  std::span<const batch<D>> to(std::span<const batch<cpu>> host, typename D::stream s) {
    while (rooms_.size() < host.size())
      rooms_.push_back({buffer<std::uint8_t, D>(device_, 0), buffer<std::int32_t, D>(device_, 0)});
    batches_.clear();
    for (std::size_t i = 0; i < host.size(); ++i)
      batches_.push_back({copied(host[i].pixels, rooms_[i].pixels, s),
                          copied(host[i].labels, rooms_[i].labels, s), host[i].count,
                          host[i].global, host[i].ranks, host[i].norm, host[i].loss_scale});
    return batches_;
  }

 private:
  struct room {
    buffer<std::uint8_t, D> pixels;
    buffer<std::int32_t, D> labels;
  };

  template <class T>
  span_on<const T, D> copied(span_on<const T, cpu> from, buffer<T, D>& to, typename D::stream s) {
    to.reserve(from.size);
    device_.copy(to.span().data, from.data, from.size * sizeof(T), s);
    return {to.span().data, from.size};
  }

  D device_;
  std::vector<room> rooms_;
  std::vector<batch<D>> batches_;
};

/// They are there already.
template <>
class upload<cpu> {
 public:
  explicit upload(const cpu&) {}
  std::span<const batch<cpu>> to(std::span<const batch<cpu>> host, cpu::stream) { return host; }
};

}  // namespace cordee::inline CORDEE_ABI
