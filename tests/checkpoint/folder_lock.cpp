// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <doctest/doctest.h>
#include <unistd.h>

#include <cordee/checkpoint/folder_lock.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using cordee::detail::checkpoints::folder_lock;
using namespace support;

TEST_CASE("folder_lock: the second one is refused and names the first, until that ends") {
  const folder files;
  const std::string at = files.file("");
  std::optional<folder_lock> first(std::in_place, at);
  for (int k = 0; k < 2; ++k)
    CHECK(contains_all(message_of<error>([&] { folder_lock second(at); }),
                       {concat("checkpoint: process ", ::getpid(), " on "), "saves into"}));
  first.reset();
  folder_lock third(at);
  CHECK(contains_all(message_of<error>([&] { folder_lock none(files.file("absent")); }),
                     {"cannot write", "absent/lock"}));
}
