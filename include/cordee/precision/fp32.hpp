// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Single precision throughout, the default.
#pragma once

#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

/// Storage, sums and master weights are floats.
struct fp32 : detail::precision::plain_precision<float> {
  static constexpr std::string_view name = "fp32";  ///< In logs, messages and checkpoints.
};
static_assert(Precision<fp32>);

}  // namespace cordee::inline CORDEE_ABI
