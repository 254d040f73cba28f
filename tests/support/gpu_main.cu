// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The runner of what needs a GPU. Where there is none it runs what is said of that, and tells ctest
// by its exit status that the rest was not run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/support/has_gpu.cuh"

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  const bool gpu = support::has_gpu();
  doctest::Context tests(argc, argv);
  if (!gpu) tests.addFilter("test-case", "*without a GPU*");
  const int failed = tests.run();
  return gpu || failed != 0 ? failed : skipped;
}
