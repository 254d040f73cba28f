// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The name of the machine that a process runs on, for messages, files and the choice of nodes.
#pragma once

#include <string>

#include <unistd.h>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// Returns at most 255 characters; none where the system gives no name.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string host_name() {
  char name[256] = {};  // POSIX's longest
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
