// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With cuDNN itself.
#include <cmath>
#include <string>

#include <cordee/device/cuda.cuh>

#include "tests/ops/engines/cudnn/engine.hpp"

using namespace support;

static_assert(ConvolutionEngine<cudnn, cordee::half, float, gpu::stream>);

namespace {

/// Engines may round partial sums, where they split or transform the sum.
template <Number N>
bool nearly(const std::vector<double>& found, const measured& right) {
  bool all = found.size() == right.value.size();
  for (std::size_t i = 0; all && i < found.size(); ++i)
    all = std::abs(found[i] - right.value[i]) <= 2 * roundoff<N> * right.magnitude[i];
  return all;
}

}  // namespace

TEST_CASE("cudnn: without a GPU creating its plan cache is an error that names what is missing") {
  std::string message;
  try {
    (void)detail::ops::cudnn_plan_cache::current();
  } catch (const error& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE_TEMPLATE("cudnn on a GPU: every pass of every shape equals the definition", N,
                   cordee::half, bfloat, float) {
  for (const convolution_problem& p : dnn_shapes)
    for (const int samples : {0, 3}) {
      cudnn_is_the_definition<cudnn, N>(device_fixture{gpu{}}, p, samples, nearly<N>);
      cudnn_is_the_definition<cudnn_with<cudnn_settings{.deterministic = true}>, N>(
          device_fixture{gpu{}}, p, samples, nearly<N>);
    }
}
