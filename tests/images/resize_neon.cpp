// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the resizer, against torchvision: tests/images/resize.cpp.
#include "tests/support/scalar_passes.hpp"
#include "tests/support/skip.hpp"

TEST_CASE("neon_passes compute the bytes of scalar integers, and of portable_passes") {
#if defined(__aarch64__)
  support::check_passes<cordee::detail::images::neon_passes>();
#else
  support::skip("compiled for a processor without NEON");
#endif
}
