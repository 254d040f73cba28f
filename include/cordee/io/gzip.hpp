// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reads files that may be compressed with gzip (RFC 1952). Without zlib, a compressed file is an
// error that names the remedy.
#pragma once

#if defined(CORDEE_HAS_ZLIB)
#include <zlib.h>
#endif

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

#if defined(CORDEE_HAS_ZLIB)

inline constexpr bool has_zlib = true;

/// The concatenated members of a gzip stream; zlib skips the optional header fields and verifies
/// the checksums.
inline std::vector<std::uint8_t> gunzip(const std::string& path, std::vector<std::uint8_t> packed) {
  struct inflater {
    z_stream z{};
    inflater() = default;
    inflater(const inflater&) = delete;
    inflater& operator=(const inflater&) = delete;
    ~inflater() { inflateEnd(&z); }
  } state;
  z_stream& z = state.z;
  constexpr int gzip_only = 16 + MAX_WBITS;
  if (inflateInit2(&z, gzip_only) != Z_OK)
    throw error(concat("cannot decompress ", path, ": no memory"));

  std::vector<std::uint8_t> out(std::max<std::size_t>(packed.size() * 3, 4096));
  std::size_t consumed = 0, produced = 0;
  const auto refuse = [&](const char* reason) {
    throw error(concat("cannot decompress ", path, ": ", reason, " at offset ", consumed, " of ",
                       packed.size(), "; fetch the file again"));
  };
  for (;;) {
    if (produced == out.size()) out.resize(out.size() * 2);
    constexpr std::size_t most = 1u << 30;  // zlib counts in 32 bits
    const auto in = static_cast<uInt>(std::min(packed.size() - consumed, most));
    const auto space = static_cast<uInt>(std::min(out.size() - produced, most));
    z.next_in = packed.data() + consumed;
    z.avail_in = in;
    z.next_out = out.data() + produced;
    z.avail_out = space;
    const int code = inflate(&z, Z_NO_FLUSH);
    consumed += in - z.avail_in;
    produced += space - z.avail_out;
    if (code == Z_STREAM_END && consumed == packed.size()) break;
    if (code == Z_STREAM_END) {
      inflateReset(&z);  // another member follows
    } else if (code == Z_BUF_ERROR) {
      refuse("the gzip stream ends too early,");  // the output is never full, so input is missing
    } else if (code != Z_OK) {
      refuse(z.msg != nullptr ? z.msg : "the gzip stream is damaged");
    }
  }
  out.resize(produced);
  return out;
}

#else

inline constexpr bool has_zlib = false;

[[noreturn]] inline std::vector<std::uint8_t> gunzip(const std::string& path,
                                                     const std::vector<std::uint8_t>&) {
  throw error(concat(path, " is compressed and this program was built without zlib: run `gunzip ",
                     path, "`, or build with zlib"));
}

#endif

/// All bytes of a file, decompressed if it begins like a gzip file, whatever its name.
inline std::vector<std::uint8_t> read_decompressed(const std::string& path) {
  std::vector<std::uint8_t> bytes = read_file(path);
  if (bytes.size() < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b) return bytes;
  return gunzip(path, std::move(bytes));
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
