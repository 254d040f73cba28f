// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/gradient_buffers.hpp>

using namespace cordee;

TEST_CASE("gradient_buffers: the last buffer released is the first acquired") {
  detail::nn::activations<cpu> memory(cpu(1), 0);
  detail::nn::gradient_buffers<float, cpu> buffers(memory, 100);
  float *a = buffers.acquire(), *b = buffers.acquire();
  CHECK(a != b);
  buffers.release(a);
  buffers.release(b);
  CHECK(buffers.acquire() == b);
  CHECK(buffers.acquire() == a);
}

TEST_CASE("gradient_buffers: a pass has released all buffers, and enlarges them") {
  detail::nn::activations<cpu> memory(cpu(1), 0);
  detail::nn::gradient_buffers<float, cpu> buffers(memory, 10);
  float *a = buffers.acquire(), *b = buffers.acquire();
  memory.begin_backward(nullptr, 0);
  float *c = buffers.acquire(), *d = buffers.acquire();
  CHECK(((c == a && d == b) || (c == b && d == a)));
  buffers = {memory, 1000};
  buffers.acquire()[999] = 1;  // for AddressSanitizer
}

TEST_CASE("gradient_buffers: a sum is taken once for each batch norm that it is for") {
  detail::nn::activations<cpu> memory(cpu(1), 0);
  detail::nn::gradient_buffers<float, cpu> buffers(memory, 1);
  const int of_main = 0, of_shortcut = 0, other = 0;
  buffers.set_summed(&of_main, &of_shortcut);
  CHECK_FALSE(buffers.take_summed(&other));
  CHECK_FALSE(buffers.take_summed(nullptr));
  CHECK(buffers.take_summed(&of_shortcut));
  CHECK(buffers.take_summed(&of_main));
  CHECK_FALSE(buffers.take_summed(&of_main));
}
