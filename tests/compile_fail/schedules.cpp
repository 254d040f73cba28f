// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rate is scaled from one batch to another: a schedule that was told one of them, or none, does
// not compile.
#include <cordee/schedule/constant.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/scaled.hpp>

using namespace cordee;

double rates() {
  constexpr constant found{0.1};
#if defined(LINEAR_WITHOUT_BATCHES)
  return linear_scaled{found}(0);
#elif defined(LINEAR_WITH_ONE_BATCH)
  return linear_scaled{found, 8192}(0);
#elif defined(SQRT_WITHOUT_A_REFERENCE)
  return sqrt_scaled<constant>{.inner = found, .global_batch = 8192}(0);
#elif defined(LEGW_WITHOUT_A_REFERENCE)
  return legw<constant>{.warmup_epochs = 1, .inner = found, .global_batch = 8192}(0);
#else
  return linear_scaled{found, 256, 8192}(0) + sqrt_scaled{found, 256, 8192}(0) +
         sqrt_scaled<constant>{.inner = found, .reference_batch = 256, .global_batch = 8192}(0) +
         legw{1, found, 256, 8192}(0);
#endif
}
