// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The test double of NCCL (nccl_double/nccl.h) over the counting double of the CUDA runtime: what
// is sent arrives, at once and at most 64 KiB of it; means are counted, not computed.
#pragma once

#include <cstring>
#include <functional>
#include <memory>

#include "tests/support/cuda_on_host.hpp"

namespace nccl_double {

inline int current_gpu() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}
inline bool is_accessible(const void*, int) { return true; }
inline void copy(void* out, const void* in, std::size_t size) {
  if (size <= std::size_t{64} * 1024) std::memcpy(out, in, size);
}
inline void enqueue(cudaStream_t, const std::function<void()>& work) { work(); }
inline bool is_gpu_idle() { return true; }
inline constexpr bool computes_means = false;
inline bool capture_mean(cudaStream_t s, const std::shared_ptr<void>& graph_owns) {
  auto& counts = support::host_cuda_counts();
  ++counts.means;
  const bool captured = support::capture_node(s, graph_owns);
  if (captured) ++counts.captured_means;
  return captured;
}
inline void count_registration(bool made) {
  auto& counts = support::host_cuda_counts();
  ++(made ? counts.registered : counts.deregistered);
}

}  // namespace nccl_double

#include "tests/support/nccl_double/nccl.h"
