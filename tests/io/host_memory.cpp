// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/io/host_memory.hpp>

TEST_CASE("host_memory: a machine that runs this test has more than 64 MiB") {
  CHECK(cordee::detail::io::memory_bytes() > std::uint64_t{1} << 26);
}
