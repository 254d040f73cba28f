// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU of NCCL's test double whose streams are threads, so that nothing but an event orders one
// behind another.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/nccl_double_gpu.hpp"

namespace support {

using namespace cordee;

/// The GPU of the double with asynchronous kernels. Its last copy closes the streams.
class threaded_gpu : public emulated {
 public:
  struct stream : nccl_double_gpu::stream {
    template <class Work>
    void submit(const Work& work) const {
      handle == nullptr ? work() : handle->enqueue(work);
    }
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      submit([blocks, kernel] { emulated::stream(1).launch_kernel(blocks, kernel); });
    }
  };
  using event = std::shared_ptr<std::atomic<bool>>;

  [[nodiscard]] stream make_stream() const {
    stream s;
    cudaStreamCreateWithFlags(&s.handle, cudaStreamNonBlocking);
    const std::scoped_lock lock(streams_->mutex);
    streams_->all.push_back(s.handle);
    return s;
  }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0) s.submit([=] { std::memset(out, 0, size); });
  }
  [[nodiscard]] event record(stream s) const {
    auto passed = std::make_shared<std::atomic<bool>>(false);
    s.submit([passed] { *passed = true; });
    return passed;
  }
  void await(stream s, const event& e) const {
    if (e != nullptr) s.submit([this_event = e] { spin(this_event); });
  }
  [[nodiscard]] static bool is_complete(const event& e) { return e == nullptr || *e; }
  static void wait(const event& e) { spin(e); }
  void finish(stream s) const { s.finish(); }

 private:
  static void spin(const event& e) {
    while (!is_complete(e)) std::this_thread::yield();
  }
  struct stream_list {
    std::mutex mutex;
    std::vector<cudaStream_t> all;
    ~stream_list() {
      for (cudaStream_t s : all) cudaStreamDestroy(s);
    }
  };
  std::shared_ptr<stream_list> streams_ = std::make_shared<stream_list>();
};
static_assert(Device<threaded_gpu> && GpuStream<threaded_gpu::stream>);

}  // namespace support
