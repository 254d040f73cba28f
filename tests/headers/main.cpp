// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>

#define DOCTEST_CONFIG_IMPLEMENT  // for the headers of component testing
#include <doctest/doctest.h>

std::uint64_t parameters_forward();
std::uint64_t parameters_backward();

int main() {
  if (parameters_forward() == parameters_backward()) return 0;
  std::puts("units that include the headers in opposite orders return different numbers");
  return 1;
}
