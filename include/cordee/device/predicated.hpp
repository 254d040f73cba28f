// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A device whose kernels are predicated on a flag in device memory: where it is not zero when a
// kernel starts, the kernel does nothing. The host can submit an update before it reads whether the
// update is to be skipped.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/span_on.hpp>
#include <cordee/device/gpu_kernel.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

template <class Kernel>
struct independence {};
template <class Kernel>
  requires(Kernel::independent)
struct independence<Kernel> {
  static constexpr bool independent = true;
};

template <class Kernel>
struct predicated_kernel : independence<Kernel> {
  static constexpr int threads = Kernel::threads;
  Kernel kernel;
  const std::int32_t* skip;  // null: never skipped

  predicated_kernel(const Kernel& k, const std::int32_t* flag) : kernel(k), skip(flag) {}
  [[nodiscard]] std::size_t shared_bytes() const {
    return cordee::detail::device::shared_bytes(kernel);
  }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (skip == nullptr || *skip == 0) kernel(b);
  }
};

/// D with streams whose kernels test the flag `skip`, in D's memory. Copies are not predicated.
template <class D>
  requires GpuStream<typename D::stream>
struct predicated : D {
  struct stream : D::stream {
    const std::int32_t* skip = nullptr;

    stream() = default;
    stream(const typename D::stream& s, const std::int32_t* flag) : D::stream(s), skip(flag) {}
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      static_assert(sizeof(predicated_kernel<Kernel>) <= max_kernel_bytes,
                    "a kernel and the flag it is predicated on are at most 4 KiB of parameters: "
                    "keep arrays in device memory");
      D::stream::launch_kernel(blocks, predicated_kernel<Kernel>(kernel, skip));
    }
  };
  [[nodiscard]] stream make_stream() const { return {D::make_stream(), nullptr}; }
};

}  // namespace cordee::inline CORDEE_ABI::detail::device
