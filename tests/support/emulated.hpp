// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU emulated on the host, as a device: memory that does not convert to std::span, and streams
// that run a kernel when it is launched, its blocks and threads in an order drawn from a seed.
// Several blocks are resident at a time and run by turns. `observer` (kernel_observer.hpp) is
// called with what they do.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/span_on.hpp>
#include <cordee/device/gpu_kernel.hpp>

#include "tests/support/emulated_thread_block.hpp"

namespace support {

class emulated {
 public:
  static constexpr std::string_view name = "emulated";
  static constexpr bool host_memory = false;

  struct event {};
  struct stream : cordee::detail::device::kernel_adl_base {
    std::uint64_t seed;  // determines the order of blocks and threads

    explicit stream(std::uint64_t order = 1) : seed(order) {}

    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      std::mt19937_64 random(seed);
      std::vector<std::size_t> order(blocks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      const observed_launch launch(kernel, blocks);
      std::vector<std::unique_ptr<emulated_thread_block>> resident;
      const auto begin_next = [&](emulated_thread_block& block) {
        block.begin(kernel, order.back(), blocks);
        order.pop_back();
      };
      while (resident.size() < max_resident && !order.empty()) {
        resident.push_back(std::make_unique<emulated_thread_block>(
            Kernel::threads, cordee::detail::device::shared_bytes(kernel), resident.size(),
            is_independent<Kernel>));
        begin_next(*resident.back());
      }
      while (!resident.empty()) {
        const auto turn = static_cast<std::ptrdiff_t>(random() % resident.size());
        emulated_thread_block& block = *resident[static_cast<std::size_t>(turn)];
        if (advance<Kernel>(block, random)) continue;
        if (!order.empty())
          begin_next(block);
        else
          resident.erase(resident.begin() + turn);
      }
      if (std::exchange(emulated_thread_block::open_counters, 0) != 0)
        throw cordee::error("kernel " + type_name(typeid(Kernel)) +
                            " leaves a counter that is not zero");
      launch.finish();
    }
    /// Of this thread, which runs the kernel.
    [[nodiscard]] unsigned* counters(std::size_t n) const {
      thread_local std::vector<std::unique_ptr<unsigned[]>> all;
      thread_local std::size_t size = 0;
      if (n > size || all.empty()) {
        size = std::max(n, size);
        all.push_back(std::make_unique<unsigned[]>(size));
      }
      return all.back().get();
    }
    [[nodiscard]] void* allocate(std::size_t size) const { return emulated{}.allocate(size); }
    void release(void* memory) const noexcept { emulated{}.release(memory); }
    void copy(void* out, const void* in, std::size_t size) const {
      if (size == 0) return;
      std::memmove(out, in, size);
      if (observer != nullptr) observer->define_memory(out, size);
    }
    void finish() const {}

   private:
    static constexpr std::size_t max_resident = 3;
    template <class Kernel>
    static constexpr bool is_independent = requires { Kernel::independent; };  // no barriers

    template <class Kernel>
    static bool advance(emulated_thread_block& block, std::mt19937_64& random) {
      if constexpr (is_independent<Kernel>)
        return block.advance_independent();
      else
        return block.advance(random);
    }
  };

  explicit emulated(std::uint64_t seed = 1) : seed_(seed) {}

  [[nodiscard]] stream make_stream() const { return stream{seed_}; }
  [[nodiscard]] void* allocate(std::size_t size) const {
    void* const memory = pin(size);
    if (memory == nullptr) return nullptr;
    const std::lock_guard lock(mutex);
    sizes[memory] = size;
    allocated += size;
    return memory;
  }
  void release(void* memory) const noexcept {
    if (memory != nullptr) {
      const std::lock_guard lock(mutex);
      const auto of = sizes.find(memory);
      allocated -= of->second;
      sizes.erase(of);
    }
    unpin(memory);
  }
  [[nodiscard]] void* pin(std::size_t size) const {
    if (size == 0) return nullptr;
    void* const memory = ::operator new(size, std::align_val_t{256});
    if (observer != nullptr) observer->add_memory(memory, size);
    return memory;
  }
  void unpin(void* memory) const noexcept { ::operator delete(memory, std::align_val_t{256}); }
  /// Bytes of all devices' memory that are allocated now, pinned memory not among them.
  static inline std::atomic<std::size_t> allocated = 0;
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream) const {
    if (size == 0) return;
    std::memset(out, 0, size);
    if (observer != nullptr) observer->define_memory(out, size);
  }
  [[nodiscard]] event record(stream) const { return {}; }
  void await(stream, event) const {}
  void finish(stream) const {}

 private:
  static inline std::mutex mutex;
  static inline std::map<void*, std::size_t> sizes;  // of what allocate returned

  std::uint64_t seed_;
};
static_assert(cordee::Device<emulated> && cordee::GpuStream<emulated::stream>);
static_assert(cordee::detail::device::MmaBlock<emulated_thread_block::view>);

}  // namespace support
