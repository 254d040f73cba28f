// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a pass: the activations that forward saves, and the gradients of activations that
// are in use in backward.
#pragma once

#include <algorithm>
#include <cstddef>

#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::device {
template <class D>
class weight_slots;
}  // namespace detail::device

namespace detail::nn {

/// Where the packed parameters of a network are: all on its device, or by block in the host's
/// memory (offload_weights.hpp).
template <class D, bool ByBlock>
struct packed_memory {
  using type = buffer<std::byte, D>;
  struct slots {
    slots(const D&, const auto& /*layout*/) {}
  };
};

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

/// Some activation buffers: their bytes for one sample together, and their number.
struct buffer_sizes {
  std::size_t bytes = 0, count = 0;

  static constexpr std::size_t alignment = 256;
  /// Their bytes for so many samples, each buffer rounded up to a multiple of `alignment`.
  [[nodiscard]] constexpr std::size_t bytes_of(std::size_t samples) const {
    return samples * bytes + count * alignment;
  }
};

/// The index of the activations of recomputed blocks.
inline constexpr std::size_t recomputed_activation = ~std::size_t{0} / 2;

/// The index of the output of a recomputed block, for the layer that computes it.
inline constexpr std::size_t block_output = recomputed_activation + 2;  // layers have two at most

/// Activations that forward saves for backward. Layers hold an index, not memory of their own: so
/// they are plain values, and a network of a hundred of them is cheap to compile.
///
/// Those of recomputed blocks (recompute.hpp) lie on a stack: the outputs of the blocks before,
/// then this block's output and what backward computes again, which the next block overwrites.
template <class D>
class activations {
 public:
  /// `stack` holds what recomputed blocks have at a time at most.
  [[gnu::cold]] activations(const D& device, std::size_t count, const buffer_sizes& stack = {})
      : stack_sizes_(stack) {
    while (buffers_.size() < count) buffers_.add(device, 0);
  }
  /// Memory of activation `index` for `size` numbers of type T.
  template <class T>
  [[nodiscard]] T* buffer_for(std::size_t index, std::size_t size) {
    if (index == block_output) return reinterpret_cast<T*>(output_);
    if (index >= recomputed_activation)
      return reinterpret_cast<T*>(next_of_block(size * sizeof(T)));
    buffers_[index].reserve(size * sizeof(T));
    return reinterpret_cast<T*>(buffers_[index].span().data);
  }
  /// The buffers that follow are of block `owner`, behind the outputs `before` of other blocks.
  /// Returns the memory of its own output, of `size` bytes.
  [[gnu::cold, gnu::noinline]] std::byte* begin_block(const void* owner, const buffer_sizes& before,
                                                      std::size_t samples, std::size_t size) {
    stack_.reserve(stack_sizes_.bytes_of(samples));
    used_ = before.bytes_of(samples);
    owner_ = owner;
    return output_ = next_of_block(size);
  }
  /// Whether the stack holds what block `owner` has computed.
  [[nodiscard]] bool holds_block(const void* owner) const { return owner_ == owner; }
  /// Frees the memory.
  [[gnu::cold]] void release(const D& device) {
    for (std::size_t k = 0; k < buffers_.size(); ++k) buffers_[k] = {device, 0};
    stack_ = {device, 0};
    owner_ = nullptr;
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = stack_.size();
    for (std::size_t k = 0; k < buffers_.size(); ++k) sum += buffers_[k].size();
    return sum;
  }

 private:
  // Memory of the block for `size` bytes, behind that of the last call.
  [[nodiscard, gnu::noinline]] std::byte* next_of_block(std::size_t size) {
    const std::size_t first = used_;
    used_ +=
        (size + buffer_sizes::alignment - 1) / buffer_sizes::alignment * buffer_sizes::alignment;
    expects(used_ <= stack_.size(), "recompute: a layer has more memory than it announced");
    return stack_.span().data + first;
  }

  buffer_list<D> buffers_;
  buffer_sizes stack_sizes_;
  buffer<std::byte, D> stack_;
  std::size_t used_ = 0;
  const void* owner_ = nullptr;
  std::byte* output_ = nullptr;
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
    for (std::size_t k = 0; k < buffers_.size(); ++k) free_.push_back(numbers(buffers_[k]));
  }
  [[nodiscard, gnu::noinline]] Number* acquire() {
    if (free_.empty())
      return numbers(buffers_.add(device_, std::max<std::size_t>(size_, 1) * sizeof(Number)));
    Number* last = free_.back();
    free_.pop_back();
    return last;
  }
  void release(Number* gradient) { free_.push_back(gradient); }
  /// Frees the memory.
  [[gnu::cold]] void release_all() {
    buffers_.clear();
    free_.clear();
    size_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return buffers_.size() * size_ * sizeof(Number); }

 private:
  static Number* numbers(buffer<std::byte, D>& b) {
    return reinterpret_cast<Number*>(b.span().data);
  }

  D device_;
  std::size_t size_ = 0;
  buffer_list<D> buffers_;
  core::pod_vector<Number*> free_;
};

}  // namespace detail::nn
}  // namespace cordee::inline CORDEE_ABI
