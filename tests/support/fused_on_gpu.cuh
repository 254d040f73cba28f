// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A fused graph of cuDNN with its tensors in a GPU's memory, executed and compared with its
// equations (fused_reference.hpp).
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>

#include "benchmarks/fused_shapes.hpp"
#include "tests/support/fused_reference.hpp"

namespace support {

/// cuDNN on a stream of the current GPU.
class fused_target {
 public:
  fused_target() : s_(device_.make_stream()) {
    cordee::detail::ops::cudnn_check(cudnnCreate(&target_.handle), "cudnnCreate");
    cordee::detail::ops::cudnn_check(cudnnSetStream(target_.handle, s_.handle), "cudnnSetStream");
  }
  fused_target(const fused_target&) = delete;
  fused_target& operator=(const fused_target&) = delete;
  ~fused_target() { cudnnDestroy(target_.handle); }

  [[nodiscard]] const cordee::detail::ops::cudnn_target& get() const { return target_; }
  [[nodiscard]] const gpu& get_device() const { return device_; }
  [[nodiscard]] gpu::stream stream() const { return s_; }

 private:
  gpu device_;
  gpu::stream s_;
  cordee::detail::ops::cudnn_target target_;
};

class fused_on_gpu {
 public:
  fused_on_gpu(cordee::detail::ops::fused_graph kind, const convolution_problem& p, int samples,
               const fused_target& target)
      : target_(target),
        reference_(kind, p, samples),
        graph_(kind, p, samples, CUDNN_DATA_HALF, target.get()) {
    for (const auto& t : graph_.tensors()) memory_.emplace_back(target.get_device(), t.bytes);
    for (std::size_t k = 0; k < memory_.size(); ++k) upload(k);
  }

  [[nodiscard]] const cordee::detail::ops::cudnn_fused_graph& graph() const { return graph_; }
  [[nodiscard]] std::vector<void*> data() {
    std::vector<void*> out;
    for (auto& m : memory_) out.push_back(m.span().data);
    return out;
  }
  /// Executes a plan, and compares as fused_reference::first_error does.
  [[nodiscard]] std::string error_of(const cordee::detail::ops::cudnn_fused_plan& plan,
                                     std::size_t most) {
    buffer<std::byte, gpu> workspace(target_.get_device(), plan.workspace_bytes() + 1);
    for (std::size_t k = 0; k < memory_.size(); ++k)
      if (reference_.is_output(k)) fill_with_nan(k);
    plan.execute(target_.get().handle, graph_, data(), workspace.span().data);
    for (std::size_t k = 0; k < memory_.size(); ++k)
      if (reference_.is_output(k)) download(k);
    return reference_.first_error(most);
  }

 private:
  void copy(void* to, const void* from, std::size_t bytes) const {
    target_.stream().copy(to, from, bytes);
    target_.stream().finish();
  }
  void upload(std::size_t k) {
    const auto& numbers = reference_.tensor(k);
    cordee::expects(reference_.bytes(k) == memory_[k].size(), "a fused graph's tensors differ");
    if (reference_.is_float(k))
      return copy(memory_[k].span().data, numbers.data(), memory_[k].size());
    std::vector<fp16::storage> halves;
    for (const float x : numbers) halves.push_back(rounded<fp16::storage>(x));
    copy(memory_[k].span().data, halves.data(), memory_[k].size());
  }
  void fill_with_nan(std::size_t k) {
    const std::vector<unsigned char> ones(memory_[k].size(), 0xff);
    copy(memory_[k].span().data, ones.data(), ones.size());
  }
  void download(std::size_t k) {
    auto& numbers = reference_.tensor(k);
    if (reference_.is_float(k))
      return copy(numbers.data(), memory_[k].span().data, memory_[k].size());
    std::vector<fp16::storage> halves(numbers.size());
    copy(halves.data(), memory_[k].span().data, memory_[k].size());
    for (std::size_t i = 0; i < halves.size(); ++i) numbers[i] = widened(halves[i]);
  }

  const fused_target& target_;
  fused_reference reference_;
  cordee::detail::ops::cudnn_fused_graph graph_;
  std::vector<buffer<std::byte, gpu>> memory_;
};

}  // namespace support
