// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// With the library itself, on a GPU where there is one.
#include <string>

#include <cordee/device/cuda.cuh>

#include "tests/ops/grid/cudnn/convolution.hpp"
#include "tests/support/has_gpu.cuh"

using namespace support;

static_assert(ConvolutionEngine<cudnn, cordee::half, float, gpu::stream>);

namespace {

/// Engines may round parts of a sum, where they split it or transform it.
template <Number N>
bool nearly(const std::vector<double>& found, const measured& right) {
  bool all = found.size() == right.value.size();
  for (std::size_t i = 0; all && i < found.size(); ++i)
    all = std::abs(found[i] - right.value[i]) <= 2 * roundoff<N> * right.magnitude[i];
  return all;
}

}  // namespace

TEST_CASE("cudnn: without a GPU its desk is an error that says what is missing") {
  if (has_gpu()) return;
  std::string said;
  try {
    (void)detail::cudnn_desk::here();
  } catch (const error& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE_TEMPLATE("cudnn on a GPU: every pass of every shape is the definition", N, cordee::half,
                   bfloat, float) {
  if (!has_gpu()) return;
  for (const convolution_problem& p : dnn_shapes)
    for (const int samples : {0, 3}) {
      cudnn_is_the_definition<cudnn, N>(bench_on{gpu{}}, p, samples, nearly<N>);
      cudnn_is_the_definition<cudnn_with<cudnn_settings{.deterministic = true}>, N>(
          bench_on{gpu{}}, p, samples, nearly<N>);
    }
}
