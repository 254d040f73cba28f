// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// Shortest forms only, no surrogates, nothing beyond U+10FFFF (RFC 3629).
inline bool is_utf8(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  for (std::size_t i = 0; i < s.size();) {
    const unsigned lead = byte(i++);
    if (lead < 0x80) continue;
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || s.size() - i < static_cast<std::size_t>(more)) return false;
    const unsigned second = byte(i);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
      return false;
    for (int k = 0; k < more; ++k)
      if ((byte(i++) & 0xc0) != 0x80) return false;
  }
  return true;
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
