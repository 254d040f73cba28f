// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <unistd.h>

#include <cordee/core/config.hpp>
#include <cordee/core/limits.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// Bytes of this machine's memory; the largest number if that is unknown.
inline std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return core::limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
