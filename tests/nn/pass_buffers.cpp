// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/pass_buffers.hpp>

using namespace cordee;

TEST_CASE("gradient_buffers: the last buffer released is the first acquired") {
  detail::nn::gradient_buffers<float, cpu> buffers(cpu(1));
  buffers.reset(100);
  float *a = buffers.acquire(), *b = buffers.acquire();
  CHECK(a != b);
  buffers.release(a);
  buffers.release(b);
  CHECK(buffers.acquire() == b);
  CHECK(buffers.acquire() == a);
}

TEST_CASE("gradient_buffers: reset releases all buffers and enlarges them") {
  detail::nn::gradient_buffers<float, cpu> buffers(cpu(1));
  buffers.reset(10);
  float *a = buffers.acquire(), *b = buffers.acquire();
  buffers.reset(10);
  float *c = buffers.acquire(), *d = buffers.acquire();
  CHECK(((c == a && d == b) || (c == b && d == a)));
  buffers.reset(1000);
  buffers.acquire()[999] = 1;  // for AddressSanitizer
}

TEST_CASE("activations: buffers grow and do not overlap") {
  detail::nn::activations<cpu> saved(cpu(1), 2);
  double *a = saved.buffer_for<double>(0, 8), *b = saved.buffer_for<double>(1, 8);
  CHECK(a != b);
  CHECK(saved.buffer_for<double>(0, 4) == a);
  saved.buffer_for<double>(0, 100)[99] = 1;
}
