// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Lists of kernels whose machine code is a test (scripts/machine-code): each line of a list
// compiles a kernel under a short name.
//
//   KERNEL(name, type)        a kernel
//   OPERATION(name, type)     for_each of an operation
//
// A line "// Covers: FOLDER" in a list promises that the lists name every *_kernel and *_op of the
// folder.
#pragma once

#include <type_traits>

#include <cordee/device/cuda.cuh>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

namespace support {

/// Dynamic shared memory of a kernel, 0 if it depends on the object.
template <class Kernel>
constexpr unsigned shared_bytes_of() {
  if constexpr (requires { std::integral_constant<std::size_t, Kernel::shared_bytes()>{}; })
    return Kernel::shared_bytes();
  else
    return 0;
}

}  // namespace support

#define KERNEL(name, ...)                                                                       \
  extern "C" __device__ unsigned name##_shared_bytes = support::shared_bytes_of<__VA_ARGS__>(); \
  extern "C" __global__ void __launch_bounds__(                                                 \
      __VA_ARGS__::threads, cordee::detail::device::resident_blocks<__VA_ARGS__>())             \
      name(const __grid_constant__ __VA_ARGS__ kernel) {                                        \
    cordee::detail::device::cuda_thread_block<__VA_ARGS__::threads> block;                      \
    kernel(block);                                                                              \
  }
#define OPERATION(name, ...) KERNEL(name, cordee::detail::device::for_each_kernel<__VA_ARGS__>)
