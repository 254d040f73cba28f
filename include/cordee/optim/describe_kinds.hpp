// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The part of an optimizer's description that says which kinds of segments decay or adapt.
#pragma once

#include <cstddef>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// "; decays weight, bias" for `verb` "decays", "; decays nothing" for an empty set; empty where
/// the set is the usual one, weights alone.
[[gnu::cold, gnu::noinline]] inline std::string describe_kinds(const char* verb, kinds on) {
  if (on == kind::weight) return {};
  std::string list;
  for (std::size_t bit = 0; bit < core::kind_names.size(); ++bit)
    if ((on.bits >> bit & 1) != 0) list += concat(list.empty() ? " " : ", ", core::kind_names[bit]);
  return concat("; ", verb, list.empty() ? " nothing" : list);
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
