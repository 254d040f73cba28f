// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU emulated on the host, as a device: memory that does not convert to std::span, and streams
// that run a kernel when it is launched, its blocks and threads in an order drawn from a seed.
#pragma once

#include <memory>
#include <new>
#include <random>
#include <string_view>

#include <cordee/core/span_on.hpp>
#include <cordee/device/gpu_kernel.hpp>

#include "tests/support/emulated_thread_block.hpp"

namespace support {

class emulated {
 public:
  static constexpr std::string_view name = "emulated";
  static constexpr bool host_memory = false;

  struct event {};
  struct stream : cordee::kernel_adl_base {
    std::uint64_t seed;  // determines the order of blocks and threads

    explicit stream(std::uint64_t order = 1) : seed(order) {}

    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      std::mt19937_64 random(seed);
      std::vector<std::size_t> order(blocks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      emulated_thread_block block(Kernel::threads, cordee::detail::device::shared_bytes(kernel));
      for (const std::size_t index : order)
        if constexpr (requires { Kernel::independent; })  // no barriers: no fibers needed
          for (int t = 0; t < Kernel::threads; ++t) {
            emulated_thread_block::view view(block, t, index, blocks);
            kernel(view);
          }
        else
          block.run(kernel, index, blocks, random);
    }
    [[nodiscard]] void* allocate(std::size_t size) const { return emulated{}.allocate(size); }
    void release(void* memory) const noexcept { emulated{}.release(memory); }
    void copy(void* out, const void* in, std::size_t size) const {
      if (size != 0) std::memmove(out, in, size);
    }
    void finish() const {}
  };

  explicit emulated(std::uint64_t seed = 1) : seed_(seed) {}

  [[nodiscard]] stream make_stream() const { return stream{seed_}; }
  [[nodiscard]] void* allocate(std::size_t size) const {
    return size == 0 ? nullptr : ::operator new(size, std::align_val_t{256});
  }
  void release(void* memory) const noexcept { ::operator delete(memory, std::align_val_t{256}); }
  [[nodiscard]] void* pin(std::size_t size) const { return allocate(size); }
  void unpin(void* memory) const noexcept { release(memory); }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream) const {
    if (size != 0) std::memset(out, 0, size);
  }
  [[nodiscard]] event record(stream) const { return {}; }
  void await(stream, event) const {}
  void finish(stream) const {}

 private:
  std::uint64_t seed_;
};
static_assert(cordee::Device<emulated> && cordee::GpuStream<emulated::stream>);
static_assert(cordee::detail::device::MmaBlock<emulated_thread_block::view>);

}  // namespace support
