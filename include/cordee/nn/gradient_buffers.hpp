// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients of activations, in the temporary memory of a pass (pass_buffers.hpp).
#pragma once

#include <cstddef>

#include <cordee/nn/pass_buffers.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Memory for gradients of activations that are in use at once in a backward pass: temporary memory
/// of the activations.
template <class Number, class D>
class gradient_buffers {
 public:
  /// `largest` numbers are the most that one is acquired with.
  gradient_buffers(activations<D>& memory, std::size_t largest)
      : memory_(&memory), largest_(largest) {}

  /// A buffer of so many numbers.
  [[nodiscard]] Number* acquire(std::size_t size) {
    return reinterpret_cast<Number*>(memory_->acquire(size * sizeof(Number)));
  }
  /// A buffer that is large enough for the gradient of any activation.
  [[nodiscard]] Number* acquire() { return acquire(largest_); }
  void release(const Number* gradient) { memory_->release(gradient); }

  /// The gradient that backward has come to is masked for the batch norm with these saved rows,
  /// and for one of its shortcut, which have its sums.
  void set_summed(const void* saved, const void* of_shortcut = nullptr) {
    summed_ = saved;
    summed_shortcut_ = of_shortcut;
  }
  /// Whether it is, once for each.
  [[nodiscard]] bool take_summed(const void* saved) {
    for (const void** one : {&summed_, &summed_shortcut_})
      if (saved != nullptr && *one == saved) return *one = nullptr, true;
    return false;
  }
  /// The gradient that backward has come to is that of an average pool's output, which has read
  /// what the last batch norm of a residual block, with these saved rows, reads.
  void set_pooled(const void* saved) { pooled_ = saved; }
  /// Whether it is, once.
  [[nodiscard]] bool take_pooled(const void* saved) {
    return saved != nullptr && pooled_ == saved && (pooled_ = nullptr, true);
  }

 private:
  activations<D>* memory_;
  std::size_t largest_;
  const void *summed_ = nullptr, *summed_shortcut_ = nullptr, *pooled_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
