// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An emulated GPU with deferred execution (deferred.hpp) on whose streams the double of cuDNN
// (cudnn_on_host.hpp) queues its executions, so that a captured graph has them.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/deferred.hpp"

namespace support {

/// The double's executions are queued on streams of this device until begin_double().
class deferred_cuda : public deferred {
 public:
  /// Of a default-constructed one the work runs at once.
  struct stream : deferred::stream {
    cudaStream_t handle = as_handle({});

    stream() = default;
    explicit stream(const deferred::stream& s) : deferred::stream(s), handle(as_handle(s)) {}
  };

  explicit deferred_cuda(std::uint64_t seed = 0) : deferred(seed) {
    host_state().submit = [](cudaStream_t handle, std::function<void()> work) {
      reinterpret_cast<const deferred::stream*>(handle)->submit(work);
    };
  }
  [[nodiscard]] stream make_stream() const { return stream(deferred::make_stream()); }

 private:
  static cudaStream_t as_handle(const deferred::stream& s) {
    static std::mutex mutex;
    static std::deque<deferred::stream> streams;  // addresses stay
    const std::scoped_lock lock(mutex);
    for (deferred::stream& one : streams)
      if (one.work_queue == s.work_queue) return reinterpret_cast<cudaStream_t>(&one);
    return reinterpret_cast<cudaStream_t>(&streams.emplace_back(s));
  }
};

}  // namespace support
