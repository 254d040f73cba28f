// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Times work on a stream of the device that the program is compiled for.
#pragma once

#if defined(__CUDACC__)
#include <cordee/device/cuda.cuh>
#else
#include "benchmarks/options.hpp"
#endif

namespace bench {

#if defined(__CUDACC__)
using cordee::detail::device::cuda_check;

/// Seconds between two events on the stream.
class stopwatch {
 public:
  stopwatch() {
    cuda_check(cudaEventCreate(&begin_), "cudaEventCreate");
    cuda_check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  template <class Stream, class F>
  double operator()(Stream s, const F& f) {
    cuda_check(cudaEventRecord(begin_, s.handle), "cudaEventRecord");
    f();
    cuda_check(cudaEventRecord(end_, s.handle), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};
#else
struct stopwatch {
  template <class Stream, class F>
  double operator()(Stream /*synchronous*/, const F& f) const {
    const double begin = now();
    f();
    return now() - begin;
  }
};
#endif

}  // namespace bench
