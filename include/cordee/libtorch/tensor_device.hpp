// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a module's tensors are for each device, and on which stream LibTorch's work is.
//
// CUDA tensors need a file compiled as CUDA and PyTorch's CUDA build, whose headers are those of
// PyPI's wheel; Debian's have no CUDA part.
#pragma once

#include <string>

#include <torch/torch.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/cpu.hpp>

#if defined(__CUDACC__) && __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#define CORDEE_HAS_CUDA_TENSORS 1
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// place(d): the tensors' device; current(d): the stream of this thread's work of LibTorch; scope:
/// while it lives, that work is on `s`, behind the thread's work before and before that after.
template <class D>
struct tensor_device;

template <>
struct tensor_device<cpu> {
  static torch::Device place(const cpu&) { return torch::kCPU; }
  static cpu::stream current(const cpu&) { return {}; }
  struct scope {
    scope(const cpu&, cpu::stream) {}
  };
};

#if defined(CORDEE_HAS_CUDA_TENSORS)
template <class D>
  requires requires(const D d) { d.ordinal(); }  // device/cuda.cuh, which no .hpp may include
struct tensor_device<D> {
  using stream = typename D::stream;
  static torch::Device place(const D& d) { return {torch::kCUDA, index_of(d)}; }
  static stream current(const D& d) {
    return {c10::cuda::getCurrentCUDAStream(index_of(d)).stream()};
  }
  class scope {
   public:
    scope(const D& d, stream s)
        : device_(d), stream_(s), before_(current(d)), guard_(of_libtorch(d, s)) {
      device_.await(stream_, device_.record(before_));
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      try {
        device_.await(before_, device_.record(stream_));
      } catch (const error&) {  // of a kernel: the step's wait throws it again
      }
    }

   private:
    const D& device_;
    stream stream_, before_;
    c10::cuda::CUDAStreamGuard guard_;
  };

 private:
  static c10::DeviceIndex index_of(const D& d) {
    return static_cast<c10::DeviceIndex>(d.ordinal());
  }
  static c10::cuda::CUDAStream of_libtorch(const D& d, stream s) {
    return s.handle == nullptr ? c10::cuda::getDefaultCUDAStream(index_of(d))
                               : c10::cuda::getStreamFromExternal(s.handle, index_of(d));
  }
};
#endif

/// Throws usage_error for a tensor that is not at `place`, with what to do.
inline void expect_place(const std::string& name, torch::Device own, torch::Device place) {
  if (own == place) return;
  throw usage_error(concat(
      "torch_model: \"", name, "\" is on device ", own.str(), ", the model's is ", place.str(),
      ": call to(torch::Device(\"", place.str(), "\")) before the model is made",
      own.is_cuda() && place.is_cpu()
          ? ", or train on the GPU: torch_model<Data, fp32, gpu> in a file compiled as CUDA"
          : "",
      place.is_cuda() && !torch::cuda::is_available()
          ? "; this LibTorch finds no GPU: take PyTorch's CUDA build and a driver of its version"
          : ""));
}

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
