// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/utsname.h>

#include <cordee/core/host_name.hpp>

TEST_CASE("host_name: the kernel's name of this machine") {
  utsname machine;
  REQUIRE(uname(&machine) == 0);
  CHECK(cordee::detail::core::host_name() == machine.nodename);
}
