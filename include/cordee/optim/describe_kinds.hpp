// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The part of an optimizer's description that says which kinds of segments decay or adapt.
#pragma once

#include <array>
#include <string>
#include <utility>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// "; decays weight, bias" for `verb` "decays", "; decays nothing" for an empty set; empty where
/// the set is the usual one, weights alone.
[[gnu::cold, gnu::noinline]] inline std::string describe_kinds(const char* verb, kinds on) {
  if (on == kind::weight) return {};
  constexpr std::array names{std::pair{kind::weight, "weight"}, std::pair{kind::bias, "bias"},
                             std::pair{kind::scale, "scale"}, std::pair{kind::shift, "shift"},
                             std::pair{kind::statistic, "statistic"}};
  std::string list;
  for (const auto& [k, name] : names)
    if (on(k)) list.append(list.empty() ? "" : ", ").append(name);
  return std::string("; ") + verb + ' ' + (list.empty() ? "nothing" : list);
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
