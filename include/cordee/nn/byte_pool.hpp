// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers of a device that are kept: a list that grows, and a pool of them.
#pragma once

#include <cstddef>

#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Buffers that are added one by one. Not a std::vector of them, whose growth every program would
/// compile (docs/compile_time.md).
template <class D>
class buffer_list {
 public:
  using block = buffer<std::byte, D>;

  buffer_list() = default;
  buffer_list(buffer_list&&) noexcept = default;
  buffer_list& operator=(buffer_list&&) noexcept = default;
  ~buffer_list() { clear(); }

  [[gnu::cold, gnu::noinline]] void clear() {
    for (block* b : blocks_) delete b;
    blocks_.clear();
  }
  /// The reference is valid until the list is cleared or destroyed.
  [[gnu::cold, gnu::noinline]] block& add(const D& device, std::size_t size) {
    blocks_.push_back(nullptr);  // room, so that nothing throws once the block is made
    blocks_.pop_back();
    blocks_.push_back(new block(device, size));
    return *blocks_.back();
  }
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] block& operator[](std::size_t k) { return *blocks_[k]; }
  [[nodiscard]] const block& operator[](std::size_t k) const { return *blocks_[k]; }

 private:
  core::pod_vector<block*> blocks_;
};

/// Buffers that grow in number only; one that was released is acquired again. Seldom used: for what
/// the arena of the activations does not hold.
template <class D>
class byte_pool {
 public:
  [[gnu::cold, gnu::noinline]] void clear() {
    buffers_.clear();
    free_.clear();
  }
  /// Releases every buffer.
  void reset() {
    free_.clear();
    for (std::size_t k = 0; k < buffers_.size(); ++k) free_.push_back(k);
  }
  /// The smallest buffer that has `size` bytes; of equal ones that which was released last, as it
  /// is still in the cache.
  [[nodiscard, gnu::cold, gnu::noinline]] std::byte* acquire(const D& device, std::size_t size) {
    std::size_t best = free_.size();
    for (std::size_t k = free_.size(); k-- > 0;)
      if (const std::size_t n = buffers_[free_[k]].size();
          n >= size && (best == free_.size() || n < buffers_[free_[best]].size()))
        best = k;
    if (best == free_.size()) return buffers_.add(device, size).span().data;
    const std::size_t index = free_[best];
    for (std::size_t k = best; k + 1 < free_.size(); ++k) free_[k] = free_[k + 1];
    free_.pop_back();
    return buffers_[index].span().data;
  }
  [[gnu::cold, gnu::noinline]] void release(const void* memory) {
    for (std::size_t k = 0; k < buffers_.size(); ++k)
      if (buffers_[k].span().data == memory) return free_.push_back(k);
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t k = 0; k < buffers_.size(); ++k) sum += buffers_[k].size();
    return sum;
  }

 private:
  buffer_list<D> buffers_;
  core::pod_vector<std::size_t> free_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
