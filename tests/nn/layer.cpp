// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/layer.hpp>

using namespace cordee;

TEST_CASE("gradient_buffers: the last one given back is the next one taken") {
  gradient_buffers<float, cpu> buffers(cpu(1));
  buffers.reset(100);
  float *a = buffers.take(), *b = buffers.take();
  CHECK(a != b);
  buffers.give(a);
  buffers.give(b);
  CHECK(buffers.take() == b);
  CHECK(buffers.take() == a);
}

TEST_CASE("gradient_buffers: a reset takes back what was never given, and makes room") {
  gradient_buffers<float, cpu> buffers(cpu(1));
  buffers.reset(10);
  float *a = buffers.take(), *b = buffers.take();
  buffers.reset(10);
  float *c = buffers.take(), *d = buffers.take();
  CHECK(((c == a && d == b) || (c == b && d == a)));
  buffers.reset(1000);
  buffers.take()[999] = 1;  // the address sanitizer watches
}

TEST_CASE("activations: room grows with the batch and is not shared") {
  activations<cpu> store(cpu(1), 2);
  double *a = store.room<double>(0, 8), *b = store.room<double>(1, 8);
  CHECK(a != b);
  CHECK(store.room<double>(0, 4) == a);
  store.room<double>(0, 100)[99] = 1;
}
