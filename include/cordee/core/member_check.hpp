// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time checks of a policy's members. A row states a member once: whether it must be there,
// the kind of policy, its type, the declaration, the arguments of a call, and likely names:
//
//   template <class O>
//   auto check_optimizer(const O& object) {
//     CORDEE_MEMBER(optional, "optimizer", O, void, check, () const, (), checks, validate);
//     CORDEE_CONSTANT(required, "optimizer", O, int, slots);
//   }
//   static_assert(core::compiles<decltype(&check_optimizer<sgd>)>);
//
// The function is not called: its parameters are the policy, as the library holds it, and arguments
// for the rows; its type is deduced, which compiles its body.
//
// A member that has the name and another type is an error with its declaration ("optimizer: `check`
// must be: void check() const"), and so is one that can be used like it under a likely name
// ("optimizer: `validate` is not read: name it `check`"): a function where the right name is
// absent, a constant always, as a base may have its default. A function that its constraints refuse
// is absent, like a wrapper's where the inner policy has none; so is a variable under a function's
// name. A template is found if it can be called without its second or third argument, or with one
// more.
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

template <class F>
concept IsFunction =
    std::is_member_function_pointer_v<F> || std::is_function_v<std::remove_pointer_t<F>>;

/// For expressions that are not evaluated.
template <class T>
T& object_of();

template <class...>
constexpr bool compiles = true;

struct any_argument {
  template <class T>
  operator T() const;
};

}  // namespace cordee::inline CORDEE_ABI::detail::core

#define CORDEE_MEMBER(need, policy, T, result, name, signature, arguments, ...)              \
  constexpr bool name##_declared = requires {                                                \
    { object.name arguments } -> std::convertible_to<result>;                                \
  };                                                                                         \
  [[maybe_unused]] constexpr bool name##_absent =                                            \
      CORDEE_MAY_LACK_##need(!(name##_declared || CORDEE_HAS_FUNCTION(T, name, arguments))); \
  static_assert(name##_declared || name##_absent,                                            \
                policy ": `" #name "` must be: " #result " " #name #signature);              \
  __VA_OPT__(CORDEE_LIKELY_1(CORDEE_LIKE_FUNCTION, policy, T, name, arguments, __VA_ARGS__))
#define CORDEE_CONSTANT(need, policy, T, type, name, ...)                                   \
  static_assert(                                                                            \
      CORDEE_HAS_CONSTANT(T, type, name) || CORDEE_MAY_LACK_##need(!CORDEE_NAMES(T, name)), \
      policy ": `" #name "` must be: static constexpr " #type " " #name);                   \
  __VA_OPT__(CORDEE_LIKELY_1(CORDEE_LIKE_CONSTANT, policy, T, name, type, __VA_ARGS__))
#define CORDEE_MAY_LACK_optional(absent) (absent)
#define CORDEE_MAY_LACK_required(absent) false

#define CORDEE_NAMES(T, name) requires { &T::name; }
#define CORDEE_HAS_CONSTANT(T, type, name) requires { std::integral_constant<type, T::name>{}; }
// A function of the name, with these or with other arguments.
#define CORDEE_HAS_FUNCTION(T, name, arguments)                                                   \
  (                                                                                               \
      requires { requires core::IsFunction<decltype(&T::name)>; } ||                              \
      requires { core::object_of<T>().name arguments; } CORDEE_OR_FEWER(T, name,                  \
                                                                        CORDEE_LIST arguments) || \
      requires { core::object_of<T>().name(CORDEE_WITH_ONE_MORE arguments); })
#define CORDEE_LIST(...) __VA_ARGS__
#define CORDEE_OR_FEWER(...) CORDEE_OR_FEWER_OF(__VA_ARGS__)
#define CORDEE_OR_FEWER_OF(T, name, a, ...)                                       \
  __VA_OPT__(                                                                     \
      || requires { core::object_of<T>().name(a CORDEE_BEHIND(__VA_ARGS__)); } || \
      requires { core::object_of<T>().name(a CORDEE_BEFORE(__VA_ARGS__)); })
#define CORDEE_BEHIND(b, ...) __VA_OPT__(, __VA_ARGS__)
#define CORDEE_BEFORE(b, ...) __VA_OPT__(, b)
#define CORDEE_WITH_ONE_MORE(...) \
  __VA_ARGS__ __VA_OPT__(, ) core::any_argument {}

// Up to four likely names of a member, with the arguments or the type that it is used with.
#define CORDEE_LIKELY_1(like, policy, T, name, use, likely, ...) \
  CORDEE_NOT_READ(like, policy, T, name, use, likely);           \
  __VA_OPT__(CORDEE_LIKELY_2(like, policy, T, name, use, __VA_ARGS__))
#define CORDEE_LIKELY_2(like, policy, T, name, use, likely, ...) \
  CORDEE_NOT_READ(like, policy, T, name, use, likely);           \
  __VA_OPT__(CORDEE_LIKELY_3(like, policy, T, name, use, __VA_ARGS__))
#define CORDEE_LIKELY_3(like, policy, T, name, use, likely, ...) \
  CORDEE_NOT_READ(like, policy, T, name, use, likely);           \
  __VA_OPT__(CORDEE_NOT_READ(like, policy, T, name, use, __VA_ARGS__);)
#define CORDEE_NOT_READ(like, policy, T, name, use, likely) \
  static_assert(!like(T, name, use, likely),                \
                policy ": `" #likely "` is not read: name it `" #name "`")
#define CORDEE_LIKE_FUNCTION(T, name, arguments, likely) \
  (name##_absent && requires { object.likely arguments; })
#define CORDEE_LIKE_CONSTANT(T, name, type, likely) CORDEE_HAS_CONSTANT(T, type, likely)
