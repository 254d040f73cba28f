// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranges of numeric options, which a policy checks before anything is spent. NaN is in none.
#pragma once

#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(std::string_view policy,
                                                          std::string_view member, double value,
                                                          std::string_view range) {
  throw usage_error(concat(policy, ": ", member, " is ", value, ", but must be ", range));
}
inline void expects_not_negative(std::string_view policy, std::string_view member, double value) {
  if (!(value >= 0 && isfinite(value))) refuse(policy, member, value, "finite and 0 or more");
}
inline void expects_positive(std::string_view policy, std::string_view member, double value) {
  if (!(value > 0 && isfinite(value))) refuse(policy, member, value, "finite and more than 0");
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
