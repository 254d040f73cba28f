// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The runner of what needs a GPU. Where there is none it runs what is said of that, and tells ctest
// by its exit status that the rest was not run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  int count = 0;
  const bool gpu = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  doctest::Context tests(argc, argv);
  if (!gpu) tests.addFilter("test-case", "*without a GPU*");
  const int failed = tests.run();
  return gpu || failed != 0 ? failed : skipped;
}
