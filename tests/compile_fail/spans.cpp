// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The address space is a type: device memory does not convert to host memory.
#include <cordee/core/span_on.hpp>

struct gpu_like {
  static constexpr bool host_memory = false;
};
struct host_like {
  static constexpr bool host_memory = true;
};

void read(cordee::span_on<float, host_like> host, cordee::span_on<float, gpu_like> device) {
  const std::span<float> ok = host;
  cordee::span_on<const float, gpu_like> constant = device;
#if defined(DEVICE_MEMORY_AS_HOST_SPAN)
  const std::span<float> wrong = device;
#elif defined(DEVICE_MEMORY_READ_BY_HOST)
  const float wrong = device[0];
#else
  const float right = host[0];
#endif
}
