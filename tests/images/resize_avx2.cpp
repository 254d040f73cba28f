// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Through the resizer, against torchvision: tests/images/resize.cpp.
#include "tests/support/scalar_passes.hpp"
#include "tests/support/skip.hpp"

TEST_CASE("avx2_passes compute the bytes of scalar integers, and of portable_passes") {
#if defined(__AVX2__)
  support::check_passes<cordee::detail::images::avx2_passes>();
#else
  support::skip("compiled for a processor without AVX2");
#endif
}
