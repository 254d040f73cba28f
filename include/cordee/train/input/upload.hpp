// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies a loader's batches from host memory to the model's device.
//
//   host memory -> pinned memory -> (a stream for copies) -> device memory
//
// Pinned and device memory are double-buffered, so the next batch is copied while kernels still
// read the previous one.
#pragma once

#include <array>
#include <concepts>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Events of record_time() have a time; seconds_between(begin, end) requires that both are
/// complete.
template <class D>
concept EventTimer = requires(const D d, typename D::stream s, const typename D::event& e) {
  { d.record_time(s) } -> std::same_as<typename D::event>;
  { d.seconds_between(e, e) } -> std::convertible_to<double>;
};

}  // namespace detail::train

/// Copies a loader's batches to the device, which holds memory for the micro-batches of two
/// updates.
template <Device D>
class upload {
 public:
  /// Creates a stream for the copies.
  explicit upload(const D& device) : device_(device), copies_(device.make_stream()) {}
  upload(const upload&) = delete;
  upload& operator=(const upload&) = delete;
  ~upload() {
    if constexpr (requires { device_.close_stream(copies_); }) device_.close_stream(copies_);
  }

  /// The batches in device memory, for work on stream `s`. Requires that all work that reads the
  /// batches of the previous call has been launched on that call's stream.
  std::span<const batch<D>> to(std::span<const batch<cpu>> host, typename D::stream s) {
    buffers_[current_].last_read = device_.record(s);
    buffer_set& next = buffers_[current_ = 1 - current_];
    detail::device::wait_for(device_, next.copied, copies_);  // the pinned memory has been copied
    if constexpr (timed)
      if (!next.batches.empty()) seconds_ += device_.seconds_between(next.begun, next.copied);
    device_.await(copies_, next.last_read);  // and kernels have read its copy
    if constexpr (timed) next.begun = device_.record_time(copies_);
    while (next.memory.size() < host.size()) next.memory.push_back(batch_memory(device_));
    next.batches.clear();
    for (std::size_t i = 0; i < host.size(); ++i) {
      const batch<cpu>& b = host[i];
      batch_memory& memory = next.memory[i];
      next.batches.push_back({memory.pixels.copy_of(device_, b.pixels, copies_),
                              memory.labels.copy_of(device_, b.labels, copies_), b.count,
                              b.global_samples, b.ranks, b.normalization, b.loss_scale});
      next.batches.back().first_sample = b.first_sample;
      if (b.label_weights.empty()) continue;
      next.batches.back().other_labels =
          memory.other_labels.copy_of(device_, b.other_labels, copies_);
      next.batches.back().label_weights =
          memory.label_weights.copy_of(device_, b.label_weights, copies_);
    }
    if constexpr (timed)
      next.copied = device_.record_time(copies_);
    else
      next.copied = device_.record(copies_);
    device_.await(s, next.copied);
    return next.batches;
  }

  /// Seconds to copy the updates finished since the last call, each from its first byte into pinned
  /// memory to its last in the device's. Excludes the last two calls of `to`, which may be in
  /// progress. 0 on a device whose events have no time.
  [[nodiscard]] double take_seconds() { return std::exchange(seconds_, 0.0); }

 private:
  static constexpr bool timed = detail::train::EventTimer<D>;

  template <class T>
  struct staged {
    detail::device::pinned<T, D> pinned_copy;
    buffer<T, D> device_copy;

    explicit staged(const D& device) : pinned_copy(device, 0), device_copy(device, 0) {}
    span_on<const T, D> copy_of(const D& device, span_on<const T, cpu> x, typename D::stream s) {
      pinned_copy.reserve(x.size);
      device_copy.reserve(x.size);
      std::copy(x.begin(), x.end(), pinned_copy.span().begin());
      device.copy(device_copy.span().data, pinned_copy.span().data(), x.size * sizeof(T), s);
      return {device_copy.span().data, x.size};
    }
  };
  struct batch_memory {
    staged<std::uint8_t> pixels;
    staged<std::int32_t> labels, other_labels;
    staged<float> label_weights;
    explicit batch_memory(const D& device)
        : pixels(device), labels(device), other_labels(device), label_weights(device) {}
  };
  struct buffer_set {
    std::vector<batch_memory> memory;
    std::vector<batch<D>> batches;
    typename D::event begun{};      // recorded before their copies, if it has a time
    typename D::event copied{};     // recorded behind them
    typename D::event last_read{};  // recorded behind all work that reads them
  };

  D device_;
  typename D::stream copies_;
  std::array<buffer_set, 2> buffers_;
  std::size_t current_ = 0;
  double seconds_ = 0;  // of copies that take_seconds() has not returned
};

/// On the CPU batches are used in place.
template <>
class upload<cpu> {
 public:
  explicit upload(const cpu&) {}  ///< Uses nothing of the device.
  /// `host` itself.
  std::span<const batch<cpu>> to(std::span<const batch<cpu>> host, cpu::stream) { return host; }
};

namespace detail::train {

/// Batches of one's own are where the model wants them.
template <class B>
struct no_upload {
  explicit no_upload(const auto& /*device*/) {}
  std::span<const B> to(std::span<const B> batches, const auto& /*stream*/) { return batches; }
};
/// A source need not know of the model's GPU: the function gets the data as they are.
template <class Data, class D>
  requires(!D::host_memory)
struct no_upload<data_batch<Data, D>> {
  using type = data_batch<Data, D>;
  std::vector<type> batches{};

  explicit no_upload(const D&) {}
  std::span<const type> to(std::span<const type> own, const auto& /*stream*/) { return own; }
  std::span<const type> to(std::span<const data_batch<Data, cpu>> own, const auto& /*stream*/) {
    batches.clear();
    for (const data_batch<Data, cpu>& b : own)
      batches.push_back({batch<D>{.count = b.count,
                                  .global_samples = b.global_samples,
                                  .ranks = b.ranks,
                                  .first_sample = b.first_sample},
                         b.data});
    return batches;
  }
};
/// What brings a loader's batches to where the model M reads them.
template <class M>
using upload_of = std::conditional_t<std::same_as<nn::batch_of<M>, batch<typename M::device>>,
                                     upload<typename M::device>, no_upload<nn::batch_of<M>>>;

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
