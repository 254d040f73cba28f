// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/core/member_names.hpp>

using cordee::detail::core::member_names;

namespace {

struct names {
  int variable, function, overloaded, generic, constrained, type, hidden, inherited, absent;
};

struct base {
  void inherited() {}
};
class every_kind : public base {
 public:
  int variable = 0;
  void function() {}
  void overloaded(int) {}
  void overloaded(double) {}
  template <class T>
  void generic(T) {}
  template <class T>
    requires(sizeof(T) > 1000)
  void constrained(T) {}
  using type = int;

 private:
  [[maybe_unused]] int hidden = 0;
};

template <class T>
concept NamesAll =
    !requires { &T::variable; } && !requires { &T::function; } && !requires { &T::overloaded; } &&
    !requires { &T::generic; } && !requires { &T::constrained; } && !requires { &T::type; } &&
    !requires { &T::hidden; } && !requires { &T::inherited; };
template <class T>
concept NamesNone = requires {
  &T::variable;
  &T::function;
  &T::overloaded;
  &T::generic;
  &T::constrained;
  &T::type;
  &T::hidden;
  &T::inherited;
};

struct nothing {};
struct closed final : every_kind {};

}  // namespace

TEST_CASE("member_names: finds members of every kind, and none in what cannot be a base") {
  CHECK(NamesAll<member_names<every_kind, names>>);
  CHECK(NamesNone<member_names<nothing, names>>);
  CHECK(NamesNone<member_names<closed, names>>);
  CHECK(NamesNone<member_names<int, names>>);
  CHECK(NamesNone<member_names<double (*)(double), names>>);
  CHECK(requires { &member_names<every_kind, names>::absent; });
}
