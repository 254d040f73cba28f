// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The sentences of refused policies are in tests/compile_fail.
#include <doctest/doctest.h>

#include <cordee/core/member_check.hpp>

using namespace cordee::detail;

namespace {

// No argument is converted to another one's type.
struct policy {
  int function(double, int, const char*) const { return 0; }
  int not_const(double, int, const char*) { return 0; }
  int one_argument(double) const { return 0; }
  template <class T>
  int deduced(T, int, const char*) const {
    return 0;
  }
  template <class T>
  int without_second(T, const char*) const {
    return 0;
  }
  template <class T>
  int without_third(T, int) const {
    return 0;
  }
  template <class T>
  int with_one_more(T, int, const char*, char*) const {
    return 0;
  }
  template <class T>
    requires(sizeof(T) > 1000)
  int refused(T, int, const char*) const {
    return 0;
  }
  int variable = 0;
};

template <class T>
constexpr bool has_all = CORDEE_HAS_FUNCTION(T, function, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, not_const, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, one_argument, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, deduced, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, without_second, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, without_third, (0.5, 1, "2")) &&
                         CORDEE_HAS_FUNCTION(T, with_one_more, (0.5, 1, "2"));
template <class T>
constexpr bool has_any = CORDEE_HAS_FUNCTION(T, refused, (0.5, 1, "2")) ||
                         CORDEE_HAS_FUNCTION(T, variable, (0.5, 1, "2")) ||
                         CORDEE_HAS_FUNCTION(T, absent, (0.5, 1, "2"));

}  // namespace

TEST_CASE("member_check: a function is found by its name, a template by a similar call") {
  CHECK(has_all<policy>);
  CHECK_FALSE(has_any<policy>);
  CHECK_FALSE(has_any<int>);
}
