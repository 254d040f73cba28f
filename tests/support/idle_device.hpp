// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU that counts (linked_device.hpp) and whose kernels do not run, with a memory of so many
// bytes.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/linked_device.hpp"

namespace support {

struct idle_device : linked_device {
  struct stream : linked_device::stream {
    stream() = default;
    stream(const linked_device::stream& s) : linked_device::stream(s) {}
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel&) const {}
  };

  explicit idle_device(std::size_t bytes = ~std::size_t{0}) : memory(bytes) {}
  [[nodiscard]] stream make_stream() const { return linked_device::make_stream(); }
  [[nodiscard]] void* allocate(std::size_t size) const {
    const std::scoped_lock lock(count().mutex);
    if (size > memory - count().device_bytes)
      throw cordee::detail::core::out_of_memory(cordee::concat("no room for ", size, " bytes"));
    return linked_device::allocate(size);
  }
  /// What is free.
  [[nodiscard]] std::optional<std::size_t> available(stream) const {
    const std::scoped_lock lock(count().mutex);
    return memory - count().device_bytes;
  }

  std::size_t memory;
};

}  // namespace support
