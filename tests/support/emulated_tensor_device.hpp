// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's tensors on the emulated GPU, whose memory is the host's.
#pragma once

#include <cordee/libtorch/tensor_device.hpp>

#include "tests/support/emulated.hpp"

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// Its streams run at once.
template <>
struct tensor_device<support::emulated> {
  static torch::Device place(const support::emulated&) { return torch::kCPU; }
  static support::emulated::stream current(const support::emulated&) {
    return support::emulated::stream{};
  }
  struct scope {
    scope(const support::emulated&, support::emulated::stream) {}
  };
};

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
