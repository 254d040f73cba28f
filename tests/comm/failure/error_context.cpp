// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/failure/error_context.hpp>

using cordee::detail::comm::completed_op, cordee::detail::comm::error_context;

TEST_CASE("error_context: the suffix is that of the innermost context of this thread, or empty") {
  CHECK(error_context::suffix().empty());
  int described = 0;
  const auto outer = [&] { return "step " + std::to_string(++described); };
  const error_context first(outer);
  CHECK(described == 0);  // made only when used
  CHECK(error_context::suffix() == " (step 1)");
  {
    const auto inner = [] { return "bucket 7"; };
    const error_context second(inner);
    CHECK(error_context::suffix() == " (bucket 7)");
    std::string other_thread = "not empty";
    std::thread([&] { other_thread = error_context::suffix(); }).join();
    CHECK(other_thread.empty());
  }
  CHECK(error_context::suffix() == " (step 2)");
  const auto nested = [] { return "in a subgroup" + error_context::outer_suffix(); };
  const error_context third(nested), fourth(nested);
  CHECK(error_context::suffix() == " (in a subgroup (in a subgroup (step 3)))");
  CHECK(error_context::suffix() ==
        " (in a subgroup (in a subgroup (step 4)))");  // the stack is unchanged
}

TEST_CASE("error_context: completed operations are those of the innermost context that has any") {
  CHECK(error_context::completed().empty());
  const auto describe = [] { return "bucket 7"; };
  const auto completed = [] { return std::vector{completed_op{7, "bucket 6", {0, 2}}}; };
  const error_context outer(describe, completed), inner(describe);
  REQUIRE(error_context::completed().size() == 1);
  CHECK(error_context::completed()[0].serialize() == "7 0-0,2-2 bucket 6");
}
