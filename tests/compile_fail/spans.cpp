// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The address space is a type: what lives on a device is not host memory by accident.
#include <cordee/core/span_on.hpp>

struct far_device {
  static constexpr bool host_memory = false;
};
struct near_device {
  static constexpr bool host_memory = true;
};

void read(cordee::span_on<float, near_device> here, cordee::span_on<float, far_device> there) {
  const std::span<float> ok = here;
  cordee::span_on<const float, far_device> constant = there;
#if defined(DEVICE_MEMORY_AS_HOST_SPAN)
  const std::span<float> wrong = there;
#elif defined(DEVICE_MEMORY_READ_BY_HOST)
  const float wrong = there[0];
#else
  const float right = here[0];
#endif
}
