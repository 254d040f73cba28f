// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A test case that cannot run here: `return skip("needs root");`. doctest counts it as passed;
// scripts/test lists the line that it prints.
#pragma once

#include <cstdio>

#include <doctest/doctest.h>

namespace support {

/// Prints "skipped: NAME: REASON" with the name of the running test case.
inline void skip(const char* reason) {
  std::printf("skipped: %s: %s\n", doctest::getContextOptions()->currentTest->m_name, reason);
  std::fflush(stdout);
}

}  // namespace support
