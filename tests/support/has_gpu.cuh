// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a test that needs a GPU can run; where there is none it returns at once.
#pragma once

#include <cuda_runtime.h>

namespace support {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace support
