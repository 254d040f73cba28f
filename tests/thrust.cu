// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>
#include <thrust/scan.h>

#include <cordee/cordee.cuh>
#include <cordee/thrust.cuh>

#include "tests/support/device_vectors.hpp"

using namespace support;

TEST_CASE("thrust: an algorithm with scratch runs in a stream's order, on a GPU as on the host") {
  std::vector<float> numbers(100'000, 1);
  const gpu device;
  const auto s = device.make_stream();
  device_vector<float, gpu> on_device(device, s, numbers);
  thrust::inclusive_scan(thrust_policy(s), on_device.data(), on_device.data() + numbers.size(),
                         on_device.data());
  thrust::inclusive_scan(thrust_policy(cpu::stream{}), numbers.data(),
                         numbers.data() + numbers.size(), numbers.data());
  CHECK(numbers.back() == 100'000);
  CHECK(on_device.read() == numbers);
}
