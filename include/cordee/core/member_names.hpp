// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a class has a member of a name, whatever it is: a variable, a type, a function, also one
// that is overloaded, a template, constrained or private.
//
//   struct names { int describe, description; };   // those in question
//   using of = member_names<T, names>;
//   requires { &of::describe; }                    // exactly where T has no member describe: else
//                                                  // the name is ambiguous
#pragma once

#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

struct no_members {};

/// For T that cannot be a base, none is found.
template <class T, class Names>
struct member_names : std::conditional_t<std::is_class_v<T> && !std::is_final_v<T>, T, no_members>,
                      Names {};

}  // namespace cordee::inline CORDEE_ABI::detail::core
