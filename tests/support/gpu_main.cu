// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The runner of the tests that need a GPU. With one it runs all but the test cases named "without a
// GPU". On a machine without one it runs only these and those named "needs no GPU", prints why the
// others are skipped, and exits with 77, which ctest reports as skipped. Any other error of the
// driver is a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <cuda_runtime.h>
#include <doctest/doctest.h>

namespace {

/// Whether the status means that this machine has no GPU that CUDA can use.
bool means_no_gpu(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
         status == cudaErrorStubLibrary;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess && !means_no_gpu(status)) {
    std::printf("error: cudaGetDeviceCount: %s\n", cudaGetErrorString(status));
    return 1;
  }
  (void)cudaGetLastError();  // the tests see none of this call's
  const bool has_gpu = status == cudaSuccess && count > 0;
  doctest::Context tests(argc, argv);
  if (has_gpu)
    tests.addFilter("test-case-exclude", "*without a GPU*");
  else
    tests.addFilter("test-case", "*without a GPU*,*needs no GPU*");
  const int failed = tests.run();
  if (has_gpu || failed != 0 || tests.shouldExit()) return failed;
  std::printf("skipped: the tests that need a GPU: cudaGetDeviceCount: %s\n",
              status == cudaSuccess ? "0 devices" : cudaGetErrorString(status));
  return skipped;
}
