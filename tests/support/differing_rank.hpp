// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Rank 2 of 3 differs from the others, which every rank must say.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/ranks.hpp"

namespace support {

/// The message of 3 ranks where `odd` is true on rank 2; f(comm, odd) trains. Where fit throws it
/// also ends the other ranks, which may report that.
template <class F>
std::string refusal(const F& f) {
  std::array<std::string, 3> messages;
  const std::string thrown = error_message([&] {
    cordee::threads::launch(
        3,
        [&](cordee::threads comm) {
          std::string& own = messages[static_cast<std::size_t>(comm.rank())];
          own = error_message([&] { f(comm, comm.rank() == 2); });
        },
        long_deadline);
  });
  const std::string first = thrown.empty() ? messages[0] : thrown.substr(thrown.find(": ") + 2);
  for (const std::string& message : messages) CHECK(contains(message, first.c_str()));
  return first;
}

}  // namespace support
