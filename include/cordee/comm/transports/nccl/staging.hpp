// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory over NCCL: copied to the GPU's on a stream of the context, and back.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cordee/comm/transports/nccl/context.hpp>
#include <cordee/comm/transports/number_range.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/cuda_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class nccl_staging {
 public:
  explicit nccl_staging(nccl_context& context) : context_(context), s_(context.staging_stream()) {}

  void exchange(nccl_transfers receives, nccl_transfers sends) const {
    std::size_t size = 0;
    for (const auto transfers : {receives, sends})
      for (const nccl_transfer& t : transfers) size += t.size;
    std::byte* next = context_.staging_memory(size);
    const auto on_gpu = [&](nccl_transfers host) {
      std::vector<nccl_transfer> transfers(host.begin(), host.end());
      for (nccl_transfer& t : transfers) t.data = std::exchange(next, next + t.size);
      return transfers;
    };
    const auto gpu_receives = on_gpu(receives), gpu_sends = on_gpu(sends);
    for (std::size_t i = 0; i < sends.size(); ++i)
      copy(gpu_sends[i].data, sends[i].data, sends[i].size);
    context_.exchange(gpu_receives, gpu_sends, s_);
    for (std::size_t i = 0; i < receives.size(); ++i)
      copy(receives[i].data, gpu_receives[i].data, receives[i].size);
    device::cuda_check(cudaStreamSynchronize(s_), "cudaStreamSynchronize");
  }

  /// f(memory, stream) of a GPU's copy of x, whose elements have `width` bytes: it reads elements
  /// `in` and writes `out`.
  template <class F>
  void run(span_on<std::byte, cpu> x, number_range in, number_range out, std::size_t width,
           const F& f) const {
    std::byte* const staging = context_.staging_memory(x.size);
    copy(staging + in.begin * width, x.data + in.begin * width, in.size() * width);
    f(static_cast<void*>(staging), s_);
    copy(x.data + out.begin * width, staging + out.begin * width, out.size() * width);
    device::cuda_check(cudaStreamSynchronize(s_), "cudaStreamSynchronize");
  }

 private:
  void copy(void* to, const void* from, std::size_t size) const {
    if (size != 0)
      device::cuda_check(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, s_), "cudaMemcpyAsync");
  }

  nccl_context& context_;
  cudaStream_t s_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
