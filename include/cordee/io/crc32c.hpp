// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli; RFC 3720, appendix B.4): the polynomial 0x1edc6f41, bits reflected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// table[k][b]: the remainder of the byte b followed by k zero bytes. Made at run time: as a
/// constant it would be computed by every compiler, 6 % of the umbrella's compile time.
inline std::array<std::array<std::uint32_t, 256>, 8> make_crc32c_table() {
  std::array<std::array<std::uint32_t, 256>, 8> table{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t r = b;
    for (int bit = 0; bit < 8; ++bit) r = r >> 1 ^ (r & 1 ? 0x82f63b78u : 0);
    table[0][b] = r;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
  return table;
}

/// Continues a remainder by bytes, eight at a time by eight tables.
inline std::uint32_t crc32c_by_table(std::uint32_t r, std::span<const std::uint8_t> bytes) {
  static const auto t = make_crc32c_table();
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    r ^= bytes[0] | std::uint32_t{bytes[1]} << 8 | std::uint32_t{bytes[2]} << 16 |
         std::uint32_t{bytes[3]} << 24;
    r = t[7][r & 0xff] ^ t[6][r >> 8 & 0xff] ^ t[5][r >> 16 & 0xff] ^ t[4][r >> 24] ^
        t[3][bytes[4]] ^ t[2][bytes[5]] ^ t[1][bytes[6]] ^ t[0][bytes[7]];
  }
  for (const std::uint8_t b : bytes) r = r >> 8 ^ t[0][(r ^ b) & 0xff];
  return r;
}

#if defined(__SSE4_2__) && defined(__x86_64__)
inline std::uint32_t crc32c_remainder(std::uint32_t r, std::span<const std::uint8_t> bytes) {
  std::uint64_t wide = r;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return crc32c_by_table(static_cast<std::uint32_t>(wide), bytes);
}
#else
inline std::uint32_t crc32c_remainder(std::uint32_t r, std::span<const std::uint8_t> bytes) {
  return crc32c_by_table(r, bytes);
}
#endif

inline std::uint32_t crc32c(std::span<const std::uint8_t> bytes) {
  return ~crc32c_remainder(~0u, bytes);
}

/// As TFRecord stores it: a checksum of data that contain checksums is none itself.
constexpr std::uint32_t masked_crc(std::uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
