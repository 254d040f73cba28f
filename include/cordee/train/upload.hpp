// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A loader's batches, which are in the host's memory, where the model is.
//
//   host memory -> pinned memory -> (a stream for copies) -> device memory, of each two in turn
//
// So the next batch can be on its way while kernels still read the one before.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include <cordee/core/protocol.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>

namespace cordee::inline CORDEE_ABI {

/// Keeps room for the micro-batches of two updates on the device. What `to` gave is read in the
/// order of the stream that it was given for, by work that is handed over before the next call.
template <Device D>
class upload {
 public:
  explicit upload(const D& device) : device_(device), copies_(device.open()) {}
  upload(const upload&) = delete;
  upload& operator=(const upload&) = delete;
  ~upload() {
    if constexpr (requires { device_.close(copies_); }) device_.close(copies_);
  }

  std::span<const batch<D>> to(std::span<const batch<cpu>> host, typename D::stream s) {
    sides_[turn_].read = device_.record(s);
    side& now = sides_[turn_ = 1 - turn_];
    device_.finish(copies_);           // what is pinned has been copied
    device_.await(copies_, now.read);  // and the kernels that read the copy are done
    while (now.rooms.size() < host.size()) now.rooms.push_back(room(device_));
    now.batches.clear();
    for (std::size_t i = 0; i < host.size(); ++i)
      now.batches.push_back({now.rooms[i].pixels.sent(device_, host[i].pixels, copies_),
                             now.rooms[i].labels.sent(device_, host[i].labels, copies_),
                             host[i].count, host[i].global, host[i].ranks, host[i].norm,
                             host[i].loss_scale});
    device_.await(s, device_.record(copies_));
    return now.batches;
  }

 private:
  template <class T>
  struct numbers {
    pinned<T, D> here;
    buffer<T, D> there;

    explicit numbers(const D& device) : here(device, 0), there(device, 0) {}
    span_on<const T, D> sent(const D& device, span_on<const T, cpu> from, typename D::stream s) {
      here.reserve(from.size);
      there.reserve(from.size);
      std::copy(from.begin(), from.end(), here.span().begin());
      device.copy(there.span().data, here.span().data(), from.size * sizeof(T), s);
      return {there.span().data, from.size};
    }
  };
  struct room {
    numbers<std::uint8_t> pixels;
    numbers<std::int32_t> labels;
    explicit room(const D& device) : pixels(device), labels(device) {}
  };
  struct side {
    std::vector<room> rooms;
    std::vector<batch<D>> batches;
    typename D::event read{};  // by all that was handed over
  };

  D device_;
  typename D::stream copies_;
  std::array<side, 2> sides_;
  std::size_t turn_ = 0;
};

/// They are there already.
template <>
class upload<cpu> {
 public:
  explicit upload(const cpu&) {}
  std::span<const batch<cpu>> to(std::span<const batch<cpu>> host, cpu::stream) { return host; }
};

}  // namespace cordee::inline CORDEE_ABI
