// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a fully connected layer.
#pragma once

#include <cstddef>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct linear_problem {
  std::size_t features = 0, outputs = 0;
  std::size_t stride = 0;  // numbers from one sample of x to the next, at least `features`
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
