// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Double precision, for tests on the CPU: golden values hold to 1e-10.
#pragma once

#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// Storage, sums and master weights are doubles.
struct fp64 : detail::precision::plain_precision<double> {
  static constexpr std::string_view name = "fp64";  ///< In logs, messages and checkpoints.
};
static_assert(Precision<fp64>);

}  // namespace cordee::inline CORDEE_ABI
