// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A test double of cuDNN's graph API and of the CUDA runtime calls beside it: a program that links
// cudnn_on_host.cpp instead of the libraries computes, in plain loops, the convolutions that its
// descriptors define. It checks strides, tensor ids, passes, factors and the order of calls,
// without a GPU and under the sanitizers. The test sets the engines and their times.
#pragma once

#include <cordee/device/cuda_status.hpp>

#include "tests/support/cudnn_double.hpp"
#include "tests/support/emulated.hpp"

namespace support {

/// An emulated device whose streams have a CUDA handle. Allocations larger than `memory` fail, and
/// a launch checks cudaGetLastError, as in `cuda`.
class host_cuda : public emulated {
 public:
  struct stream : emulated::stream {
    stream() : emulated::stream() {}
    stream(const emulated::stream& s, cudaStream_t h) : emulated::stream(s), handle(h) {}
    cudaStream_t handle = nullptr;

    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      emulated::stream::launch_kernel(blocks, kernel);
      cordee::detail::device::cuda_check(cudaGetLastError(), "launch of a kernel");
    }
    [[nodiscard]] void* allocate(std::size_t size) const {
      if (size > host_state().memory)
        cordee::detail::device::cuda_check(host_state().last = cudaErrorMemoryAllocation,
                                           "cudaMallocAsync");
      return emulated::stream::allocate(size);
    }
  };
  host_cuda() : emulated() {}
  [[nodiscard]] stream make_stream() const {
    static int unit = 0;
    return {emulated::make_stream(), reinterpret_cast<cudaStream_t>(&unit)};
  }
};

}  // namespace support
