// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's graph API, and the few calls of CUDA's beside it, on the host: a program that links
// cudnn_on_host.cpp instead of the libraries computes, in plain loops, what the descriptors that it
// made say. So strides, names of tensors, directions, factors and the order of calls are seen to be
// right under the sanitizers, where there is no GPU. How long engines take is said by the test.
#pragma once

#include <cstdint>
#include <vector>

#include <cudnn_graph.h>

#include <cordee/device/cuda_status.hpp>

#include "tests/support/emulated.hpp"

namespace support {

/// One engine of this cuDNN, in the order of its heuristics' liking.
struct host_engine {
  int index = 0;
  float milliseconds = 1;
  std::int64_t workspace = 0;
  std::vector<cudnnBackendNumericalNote_t> notes{};
  bool finalises = true, executes = true;
};

/// What this cuDNN can do and has done.
struct host_cudnn {
  std::vector<host_engine> engines{{}}, fallbacks{};
  std::vector<int> executed;         // engines' indices
  int heuristics = 0;                // how often they were asked
  int device = 0;                    // the current one
  int handles = 0, descriptors = 0;  // that live
  double clock = 0;
  std::size_t memory = std::size_t{1} << 40;  // what may be lent at once
  cudaError_t last = cudaSuccess;             // remembered until it is asked for, as CUDA does
};
host_cudnn& on_host();

/// A device whose grids run in the emulator, and cuDNN's part in plain loops, both at once. Memory
/// may be short, and a launch asks for the last error, as `cuda`'s does.
class host_cuda : public emulated {
 public:
  struct stream : emulated::stream {
    stream() : emulated::stream() {}
    stream(const emulated::stream& grids, cudaStream_t h) : emulated::stream(grids), handle(h) {}
    cudaStream_t handle = nullptr;

    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      emulated::stream::launch(blocks, body);
      cordee::detail::cuda_check(cudaGetLastError(), "launch of a kernel");
    }
    [[nodiscard]] void* lend(std::size_t size) const {
      if (size > on_host().memory)
        cordee::detail::cuda_check(on_host().last = cudaErrorMemoryAllocation, "cudaMallocAsync");
      return emulated::stream::lend(size);
    }
  };
  host_cuda() : emulated() {}
  [[nodiscard]] stream open() const {
    static int unit = 0;
    return {emulated::open(), reinterpret_cast<cudaStream_t>(&unit)};
  }
};

}  // namespace support
