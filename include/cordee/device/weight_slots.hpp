// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights in page-locked host memory, in blocks that are uploaded in turn to two slots of device
// memory, each while the block before it computes:
//
//   uploads    0 1   2   3
//   compute      0   1   2   3       upload k + 2 waits for the end of block k: it reuses its slot
//
// A backward pass walks in reverse. It begins with the two blocks that forward has left, unless
// some bytes are read by one of both alone: then each pass uploads what it reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/pinned.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// Weights in page-locked host memory, which a GPU's kernels may write as well. Zero initially.
template <PinnedAllocator D>
class pinned_weights {
 public:
  pinned_weights(const D& device, std::size_t size) : memory_(device, size) {
    if (size != 0) std::memset(memory_.span().data(), 0, size);
  }
  [[nodiscard]] std::size_t size() const { return memory_.span().size(); }
  [[nodiscard]] span_on<std::byte, D> span() { return {memory_.span().data(), size()}; }
  [[nodiscard]] span_on<const std::byte, D> span() const { return {memory_.span().data(), size()}; }

 private:
  pinned<std::byte, D> memory_;
};

/// The blocks of weights on the device. Passes of one host thread.
template <class D>
class weight_slots {
  static_assert(PinnedAllocator<D>,
                "offload_weights: this device has no page-locked host memory (pin, unpin)");
  using stream = typename D::stream;

 public:
  /// Block k ends at byte `ends[k]`, where the next one begins. The others are ascending ranges
  /// {begin, end, begin, end, ...} of bytes that forward, or backward, alone reads.
  [[gnu::cold]] weight_slots(const D& device, core::pod_vector<std::size_t> ends,
                             const core::pod_vector<std::size_t>& forward_only = {},
                             const core::pod_vector<std::size_t>& backward_only = {})
      : device_(device),
        uploads_(device.make_stream()),
        ends_(std::move(ends)),
        forward_(uploads_without(backward_only)),
        backward_(uploads_without(forward_only)),
        keeps_last_(backward_only.empty()),
        largest_(largest_block()),
        memory_(device, 2 * largest_) {}
  weight_slots(const weight_slots&) = delete;
  weight_slots& operator=(const weight_slots&) = delete;
  ~weight_slots() {
    if constexpr (requires { device_.close_stream(uploads_); }) device_.close_stream(uploads_);
  }

  /// A pass over the blocks in ascending order, behind the work of `s` so far.
  void begin_forward(const std::byte* weights, stream s) {
    weights_ = weights;
    ascends_ = true;
    const auto before = device_.record(s);
    slots_.fill({.released = before});
  }
  /// A pass in descending order, with the weights of the last forward pass, which have not changed.
  void begin_backward(const std::byte* weights, stream s) {
    if (weights != weights_) begin_forward(weights, s);
    ascends_ = false;
    if (!keeps_last_)
      for (slot& one : slots_) one.block = none;
  }
  /// Work of `s` from now on may read block k. Returns where byte 0 of the weights would be; only
  /// bytes of the block may be accessed, until leave(k).
  [[nodiscard]] const std::byte* enter(std::size_t k, stream s) {
    upload(k);
    slot& own = slots_[k % 2];
    device_.await(s, own.uploaded);
    own.awaited = true;
    const std::size_t next = ascends_ ? k + 1 : k - 1;  // none behind the first and the last
    if (next < blocks()) upload(next);
    return memory_of(k) - begin_of(k);
  }
  /// Work of `s` from now on does not read block k.
  void leave(std::size_t k, stream s) { slots_[k % 2].released = device_.record(s); }
  /// Work of `s` from now on may change the weights in the host's memory.
  void end(stream s) {
    for (slot& one : slots_)
      if (!std::exchange(one.awaited, true)) device_.await(s, one.uploaded);
  }

  /// Bytes of both slots together.
  [[nodiscard]] std::size_t bytes() const { return memory_.size(); }
  [[nodiscard]] std::size_t blocks() const { return ends_.size(); }
  /// Bytes that a forward pass uploads.
  [[nodiscard]] std::size_t forward_bytes() const { return bytes_of(forward_, blocks()); }
  /// Bytes that the backward pass behind it uploads.
  [[nodiscard]] std::size_t backward_bytes() const {
    return bytes_of(backward_, blocks() - (keeps_last_ ? std::min<std::size_t>(blocks(), 2) : 0));
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  /// Ranges of bytes that a pass reads; those of block k end before number ends[k].
  struct upload_list {
    core::pod_vector<std::size_t> bounds, ends;
  };
  struct slot {
    std::size_t block = none;
    typename D::event uploaded{};  // behind the upload
    typename D::event released{};  // behind the last work that reads the slot
    bool awaited = true;           // the upload, by the stream of the pass
  };

  [[nodiscard]] std::size_t begin_of(std::size_t k) const { return k == 0 ? 0 : ends_[k - 1]; }
  [[nodiscard]] std::size_t size_of(std::size_t k) const { return ends_[k] - begin_of(k); }
  [[nodiscard, gnu::cold]] upload_list uploads_without(
      const core::pod_vector<std::size_t>& excluded) const {
    upload_list out;
    for (std::size_t k = 0, next = 0; k < blocks(); ++k) {
      std::size_t at = begin_of(k);
      const auto add_until = [&](std::size_t end) {
        if (at >= end) return;
        out.bounds.push_back(at);
        out.bounds.push_back(end);
      };
      for (; next < excluded.size() && excluded[next] < ends_[k]; next += 2) {
        add_until(excluded[next]);
        at = excluded[next + 1];
      }
      add_until(ends_[k]);
      out.ends.push_back(out.bounds.size());
    }
    return out;
  }
  static std::size_t bytes_of(const upload_list& list, std::size_t first_blocks) {
    std::size_t sum = 0;
    const std::size_t end = first_blocks == 0 ? 0 : list.ends[first_blocks - 1];
    for (std::size_t i = 0; i < end; i += 2) sum += list.bounds[i + 1] - list.bounds[i];
    return sum;
  }
  [[nodiscard]] std::size_t largest_block() const {
    std::size_t largest = 0;
    for (std::size_t k = 0; k < blocks(); ++k) largest = std::max(largest, size_of(k));
    return (largest + 255) / 256 * 256;  // so that both slots are aligned
  }
  [[nodiscard]] std::byte* memory_of(std::size_t k) {
    return memory_.span().data + k % 2 * largest_;
  }
  void upload(std::size_t k) {
    slot& to = slots_[k % 2];
    if (to.block == k) return;
    device_.await(uploads_, to.released);
    const upload_list& list = ascends_ ? forward_ : backward_;
    for (std::size_t i = k == 0 ? 0 : list.ends[k - 1]; i < list.ends[k]; i += 2) {
      const std::size_t begin = list.bounds[i];
      device_.copy(memory_of(k) + (begin - begin_of(k)), weights_ + begin,
                   list.bounds[i + 1] - begin, uploads_);
    }
    to.block = k;
    to.uploaded = device_.record(uploads_);
    to.awaited = false;
  }

  D device_;
  stream uploads_;
  core::pod_vector<std::size_t> ends_;
  upload_list forward_, backward_;
  bool keeps_last_;  // whether backward reads what forward has uploaded
  std::size_t largest_;
  buffer<std::byte, D> memory_;  // (2, largest_)
  std::array<slot, 2> slots_{};
  const std::byte* weights_ = nullptr;
  bool ascends_ = true;
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
