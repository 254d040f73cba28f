// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU on the host, as a device: memory of its own that does not convert to std::span, and streams
// that run grids of fibers at once, blocks in an order drawn from a seed.
#pragma once

#include <memory>
#include <new>
#include <random>
#include <string_view>

#include <cordee/core/span_on.hpp>
#include <cordee/device/grid.hpp>

#include "tests/support/emulated_block.hpp"

namespace support {

class emulated {
 public:
  static constexpr std::string_view name = "emulated";
  static constexpr bool host_memory = false;

  struct event {};
  struct stream : cordee::finds_kernels {
    std::uint64_t seed;  // of the order of blocks and threads

    explicit stream(std::uint64_t order = 1) : seed(order) {}

    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      std::mt19937_64 random(seed);
      std::vector<std::size_t> order(blocks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      emulated_block block(Body::threads, cordee::shared_bytes(body));
      for (const std::size_t index : order)
        if constexpr (requires { Body::independent; })
          for (int t = 0; t < Body::threads; ++t) {
            emulated_block::view alone(block, t, index, blocks);
            body(alone);
          }
        else
          block.run(body, index, blocks, random);
    }
    [[nodiscard]] void* lend(std::size_t size) const { return emulated{}.allocate(size); }
    void take_back(void* memory) const noexcept { emulated{}.release(memory); }
    void copy(void* out, const void* in, std::size_t size) const {
      if (size != 0) std::memmove(out, in, size);
    }
    void finish() const {}
  };

  explicit emulated(std::uint64_t seed = 1) : seed_(seed) {}

  [[nodiscard]] stream open() const { return stream{seed_}; }
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
static_assert(cordee::Device<emulated> && cordee::GridStream<emulated::stream>);
static_assert(cordee::MatrixBlock<emulated_block::view>);

}  // namespace support
