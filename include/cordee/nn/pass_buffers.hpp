// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a pass: the activations that forward saves, and the gradients of activations that
// are in use in backward.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Activations that forward saves for backward. Layers hold an index, not memory of their own: so
/// they are plain values, and a network of a hundred of them is cheap to compile.
template <class D>
class activations {
 public:
  [[gnu::cold]] activations(const D& device, std::size_t count) {
    while (buffers_.size() < count) buffers_.push_back(block(device, 0));
  }
  /// Memory of activation `index` for `size` numbers of type T.
  template <class T>
  [[nodiscard]] T* buffer_for(std::size_t index, std::size_t size) {
    buffers_[index].reserve(size * sizeof(T));
    return reinterpret_cast<T*>(buffers_[index].span().data);
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const block& b : buffers_) sum += b.size();
    return sum;
  }

 private:
  using block = buffer<std::byte, D>;

  std::vector<block> buffers_;
};

/// A pool of buffers for gradients of activations, as many as are in use at once. The buffer that
/// was released last is acquired first: it is still in the cache.
template <class Number, class D>
class gradient_buffers {
 public:
  explicit gradient_buffers(const D& device) : device_(device) {}

  /// Releases every buffer; buffers hold at least `size` numbers from now on.
  void reset(std::size_t size) {
    if (size > size_) {
      buffers_.clear();
      size_ = size;
    }
    free_.clear();
    for (block& b : buffers_) free_.push_back(numbers(b));
  }
  [[nodiscard]] Number* acquire() {
    if (free_.empty()) {
      buffers_.push_back(block(device_, std::max<std::size_t>(size_, 1) * sizeof(Number)));
      return numbers(buffers_.back());
    }
    Number* last = free_.back();
    free_.pop_back();
    return last;
  }
  void release(Number* gradient) { free_.push_back(gradient); }
  [[nodiscard]] std::size_t bytes() const { return buffers_.size() * size_ * sizeof(Number); }

 private:
  using block = buffer<std::byte, D>;  // as in activations: one std::vector less to compile

  static Number* numbers(block& b) { return reinterpret_cast<Number*>(b.span().data); }

  D device_;
  std::size_t size_ = 0;
  std::vector<block> buffers_;
  core::pod_vector<Number*> free_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
