// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a pass: the activations that forward saves, and temporary memory where they are
// not, or no longer, in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/buffer_sizes.hpp>
#include <cordee/nn/byte_pool.hpp>

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

/// Where blocks of activations are when they are not computed: in the network's memory, or in the
/// host's (offload_activations.hpp).
template <class D, bool Offloaded>
struct activation_memory {
  struct type {
    type(const D&, const auto& /*layout*/) {}
    static void begin_forward(const auto& /*pass*/, std::size_t, const auto& /*stream*/) {}
    static void begin_backward(const auto& /*pass*/) {}
    static void end_backward(const auto& /*stream*/) {}
    [[nodiscard]] static const char* describe() {
      return "activations: nothing is moved on the CPU, whose activations are in host memory";
    }
    [[nodiscard]] static std::size_t bytes() { return 0; }
    static void release() {}
  };
};
template <class D>
class activation_offload;

/// Activations that forward saves for backward. Layers hold an index, not memory of their own: so
/// they are plain values, and a network of a hundred of them is cheap to compile.
///
/// One arena has all whose size was announced, in the order of forward, and behind them a stack for
/// those of recomputed blocks (recompute.hpp): the outputs of the blocks before, then this block's
/// output and what backward computes again, which the next block overwrites.
///
///   | activations of the layers so far | unused: temporary memory |       in forward
///   | activations of layers to come    | read:   temporary memory |       in backward
///
/// Temporary memory begins where `set_floor` or `begin_block` says, and is taken from the end. What
/// does not fit there has buffers of its own, which are kept.
template <class D>
class activations {
 public:
  /// `stack` holds what recomputed blocks have at a time at most.
  [[gnu::cold, gnu::noinline]] activations(const D& device, std::size_t count,
                                           std::span<const planned_buffer> planned = {},
                                           const buffer_sizes& all = {},
                                           const buffer_sizes& stack = {})
      : activations(device) {  // which is complete here, so that only its destructor undoes it
    all_ = all;
    stack_sizes_ = stack;
    while (buffers_.size() < count) buffers_.add(device, 0);
    planned_.resize(count);
    for (const planned_buffer& b : planned) planned_[b.index] = b;
  }
  /// A pass of so many samples begins, in an arena of `size` bytes at least: no temporary memory is
  /// in use. Where the arena grows, it loses its contents.
  [[gnu::cold, gnu::noinline]] void begin_forward(std::size_t samples, std::size_t size = 0) {
    if (samples > largest_) {
      temporaries_.clear();  // smaller than those of this pass
      largest_ = samples;
    }
    samples_ = samples;
    arena_.reserve(std::max(size, all_.bytes_of(samples) + stack_sizes_.bytes_of(samples)));
    stack_floor_ = 0;
    release_temporaries();
  }
  /// All activations are in use. `kept`, if it is one, stays so.
  [[gnu::cold, gnu::noinline]] void begin_backward(const void* kept, std::size_t size) {
    release_temporaries();
    floor_ = all_.bytes_of(samples_) + stack_sizes_.bytes_of(samples_);
    if (const std::size_t first = offset_of(kept); first < arena_.size())
      in_use_.push_back({first, first + size});
  }
  /// Temporary memory begins behind the activations `before`, and the stack of blocks. Where it is
  /// `fixed`, it stays until release_floor.
  [[gnu::noinline]] void set_floor(const buffer_sizes& before, bool fixed = false) {
    const bool stays = fixed_ > 0;
    if (fixed) ++fixed_;
    if (stays) return;
    if (block_ == block_pass::none)
      floor_ = before.bytes_of(samples_);
    else if (block_ == block_pass::backward)
      stack_floor_ = std::max(floor_before_, block_begin_ + before.bytes_of(samples_));
  }
  void release_floor() { --fixed_; }
  /// Memory of activation `index` for `size` numbers of type T.
  template <class T>
  [[nodiscard]] T* buffer_for(std::size_t index, std::size_t size) {
    return reinterpret_cast<T*>(bytes_for(index, size * sizeof(T)));
  }
  /// The buffers that follow are of block `owner`, behind the outputs `before` of other blocks.
  /// Neither this nor an earlier block has more than `most`, behind which temporary memory begins.
  /// Returns the memory of its own output, of `size` bytes.
  [[gnu::cold, gnu::noinline]] std::byte* begin_block(const void* owner, const buffer_sizes& before,
                                                      const buffer_sizes& most, std::size_t size) {
    used_ = stack_begin() + before.bytes_of(samples_);
    stack_floor_ = stack_begin() + most.bytes_of(samples_);
    owner_ = owner;
    output_ = next_of_block(size);
    block_begin_ = used_;
    block_ = block_pass::forward;
    return output_;
  }
  void end_block_forward() { block_ = block_pass::none; }
  /// The buffers that follow are of a block in other memory, until end_region.
  void begin_region(std::byte* memory, std::size_t size) {
    region_ = memory;
    region_size_ = size;
    region_used_ = 0;
  }
  /// Returns the bytes that they have.
  std::size_t end_region() {
    region_ = nullptr;
    return region_used_;
  }
  /// From now on the block's activations are read, in reverse. Blocks before have no more than
  /// `most`; without any there is no stack when the block ends.
  void begin_block_backward(const buffer_sizes& most) {
    floor_before_ = most.count == 0 ? 0 : stack_begin() + most.bytes_of(samples_);
    block_ = block_pass::backward;
  }
  void end_block_backward() {
    stack_floor_ = floor_before_;
    block_ = block_pass::none;
  }
  /// Whether the stack holds what block `owner` has computed.
  [[nodiscard]] bool holds_block(const void* owner) const { return owner_ == owner; }

  /// Temporary memory, until release() or the next pass.
  [[nodiscard, gnu::noinline]] std::byte* acquire(std::size_t size) {
    size = std::max(size, std::size_t{1});
    // The smallest gap that has so much: a small buffer in a large gap would leave none for those
    // before a layer with a stride.
    const std::size_t floor = std::max(floor_, stack_floor_), none = arena_.size();
    std::size_t best = none, least = ~std::size_t{0};
    for (std::size_t end = arena_.size(); end > floor;) {
      const range* above = nullptr;  // the last one below `end`
      for (const range& r : in_use_)
        if (r.first < end && (above == nullptr || r.last > above->last)) above = &r;
      const std::size_t begin = above == nullptr ? floor : std::max(floor, above->last);
      if (begin < end && size <= end - begin && end - begin < least) {
        const std::size_t first = (end - size) / buffer_sizes::alignment * buffer_sizes::alignment;
        if (first >= begin) best = first, least = end - begin;
      }
      if (above == nullptr) break;
      end = above->first;
    }
    if (best != none) {
      in_use_.push_back({best, best + size});
      return arena_.span().data + best;
    }
    return temporaries_.acquire(device_, size);
  }
  [[gnu::noinline]] void release(const void* memory) {
    const std::size_t first = offset_of(memory);
    if (first >= arena_.size()) return temporaries_.release(memory);
    for (range& r : in_use_)
      if (r.first == first) {
        r = in_use_.back();
        return in_use_.pop_back();
      }
  }
  /// Frees the memory.
  [[gnu::cold]] void release_all() {
    for (std::size_t k = 0; k < buffers_.size(); ++k) buffers_[k] = {device_, 0};
    arena_ = {device_, 0};
    temporaries_.clear();
    in_use_.clear();
    largest_ = 0;
    owner_ = nullptr;
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = arena_.size() + temporaries_.bytes();
    for (std::size_t k = 0; k < buffers_.size(); ++k) sum += buffers_[k].size();
    return sum;
  }

 private:
  struct range {
    std::size_t first, last;
  };

  explicit activations(const D& device) : device_(device), arena_(device, 0) {}
  [[nodiscard, gnu::noinline]] std::byte* bytes_for(std::size_t index, std::size_t size) {
    if (index == block_output) return output_;
    if (index >= recomputed_activation) return next_of_block(size);
    if (size <= planned_[index].bytes * samples_ && arena_.size() > 0)
      return arena_.span().data + planned_[index].before.bytes_of(samples_);
    buffers_[index].reserve(size);
    return buffers_[index].span().data;
  }
  [[gnu::cold, gnu::noinline]] void release_temporaries() {
    in_use_.clear();
    temporaries_.reset();
    floor_ = arena_.size();
    fixed_ = 0;
    block_ = block_pass::none;
  }
  [[nodiscard]] std::size_t stack_begin() const { return all_.bytes_of(samples_); }
  // At least the arena's size for other memory.
  [[nodiscard]] std::size_t offset_of(const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) -
           reinterpret_cast<std::uintptr_t>(arena_.span().data);
  }
  // Memory of the block for `size` bytes, behind that of the last call.
  [[nodiscard, gnu::cold, gnu::noinline]] std::byte* next_of_block(std::size_t size) {
    size = (size + buffer_sizes::alignment - 1) / buffer_sizes::alignment * buffer_sizes::alignment;
    if (region_ != nullptr) {
      region_used_ += size;
      expects(region_used_ <= region_size_,
              "offload_activations: a layer has more memory than it announced");
      return region_ + region_used_ - size;
    }
    const std::size_t first = used_;
    used_ += size;
    expects(used_ <= stack_floor_, "recompute: a layer has more memory than it announced");
    return arena_.span().data + first;
  }

  D device_;
  buffer<std::byte, D> arena_;                // before what cannot throw
  core::pod_vector<planned_buffer> planned_;  // by index
  buffer_sizes all_, stack_sizes_;
  buffer_list<D> buffers_;  // of the others, by index
  std::size_t samples_ = 0, largest_ = 0;
  std::size_t floor_ = 0, stack_floor_ = 0;  // temporary memory is behind both
  int fixed_ = 0;
  enum class block_pass { none, forward, backward } block_ = block_pass::none;
  std::size_t block_begin_ = 0, floor_before_ = 0;  // of the block at work
  core::pod_vector<range> in_use_;                  // of temporary memory in the arena
  byte_pool<D> temporaries_;                        // the others
  std::size_t used_ = 0;                            // by the block at work
  std::byte* region_ = nullptr;                     // of the offloaded block at work
  std::size_t region_size_ = 0, region_used_ = 0;
  const void* owner_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace detail::nn
}  // namespace cordee::inline CORDEE_ABI
