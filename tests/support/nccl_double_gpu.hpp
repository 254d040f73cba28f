// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cordee::nccl over a test double of NCCL, with threads as ranks, which find each other by a
// communicator of threads; and a GPU of that double, whose kernels run synchronously, on fibers.
#pragma once

#include <chrono>

#include <cordee/comm/transports/nccl.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/ranks.hpp"

namespace support {

class nccl_double_gpu : public emulated {
 public:
  struct stream : emulated::stream {
    cudaStream_t handle = nullptr;
    stream() : emulated::stream(1) {}
    // Behind what is enqueued: a kernel runs at once.
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      finish();
      emulated::stream::launch_kernel(blocks, kernel);
    }
    void copy(void* out, const void* in, std::size_t size) const {
      cudaMemcpyAsync(out, in, size, cudaMemcpyDefault, handle);
    }
    [[nodiscard]] void* allocate(std::size_t size) const {
      void* memory = nullptr;
      if (size != 0) cudaMallocAsync(&memory, size, handle);
      return memory;
    }
    void release(void* memory) const noexcept {
      if (memory != nullptr) cudaFreeAsync(memory, handle);
    }
    void finish() const { cudaStreamSynchronize(handle); }
  };
  nccl_double_gpu() : emulated(1) {}
  [[nodiscard]] static stream make_stream() {
    stream s;
    cudaStreamCreateWithFlags(&s.handle, cudaStreamNonBlocking);
    return s;
  }
  static void close(stream s) { cudaStreamDestroy(s.handle); }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  // Blocks until what was enqueued on the stream is complete.
  [[nodiscard]] event record(stream s) const {
    s.finish();
    return {};
  }
  void await(stream, event) const {}
  [[nodiscard]] static bool is_complete(event) { return true; }
  void clear(void* out, std::size_t size, stream) const {
    if (size != 0) std::memset(out, 0, size);
  }
  void finish(stream s) const { s.finish(); }
};
static_assert(cordee::Device<nccl_double_gpu> && cordee::GpuStream<nccl_double_gpu::stream>);

/// f(comm) on so many ranks. Throws the error of the rank that throws the cause; and where ranks
/// had operations of two communicators in flight at once, which NCCL allows in one order only.
inline constexpr auto launch_nccl = [](int ranks, const auto& f,
                                       std::chrono::milliseconds deadline) {
  const int before = nccl_double::overlapping;
  cordee::threads::launch(ranks,
                          [&](cordee::threads host_comm) {
                            try {
                              cordee::nccl::launch(f, cordee::rendezvous_comm{host_comm},
                                                   {.deadline = deadline});
                            } catch (const cordee::aborted&) {
                            }
                          },
                          {.deadline = std::chrono::seconds(60)});
  if (const int overlapping = nccl_double::overlapping - before; overlapping > 0)
    throw cordee::error(cordee::concat("nccl: ", overlapping,
                                       " operations were launched while another communicator of "
                                       "their GPU had one in flight"));
};

/// Its message.
std::string launch_error(int ranks, const auto& f,
                         std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
  return error_message([&] { launch_nccl(ranks, f, deadline); });
}

}  // namespace support
