// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Files that may be compressed with gzip (RFC 1952). With zlib they are unpacked while they are
// read; without, the error says what to do.
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

namespace cordee::inline CORDEE_ABI {

namespace detail {

#if defined(CORDEE_HAS_ZLIB)

inline constexpr bool has_zlib = true;

/// All members of a gzip stream, one after another; zlib skips the optional header fields and
/// checks the checksums.
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
  if (inflateInit2(&z, gzip_only) != Z_OK) throw error(text("cannot unpack ", path, ": no memory"));

  std::vector<std::uint8_t> out(std::max<std::size_t>(packed.size() * 3, 4096));
  std::size_t taken = 0, made = 0;
  const auto refuse = [&](const char* what) {
    throw error(text("cannot unpack ", path, ": ", what, " at offset ", taken, " of ",
                     packed.size(), "; fetch the file again"));
  };
  for (;;) {
    if (made == out.size()) out.resize(out.size() * 2);
    constexpr std::size_t most = 1u << 30;  // zlib counts in 32 bits
    const auto in = static_cast<uInt>(std::min(packed.size() - taken, most));
    const auto room = static_cast<uInt>(std::min(out.size() - made, most));
    z.next_in = packed.data() + taken;
    z.avail_in = in;
    z.next_out = out.data() + made;
    z.avail_out = room;
    const int code = inflate(&z, Z_NO_FLUSH);
    taken += in - z.avail_in;
    made += room - z.avail_out;
    if (code == Z_STREAM_END && taken == packed.size()) break;
    if (code == Z_STREAM_END) {
      inflateReset(&z);  // another member follows
    } else if (code == Z_BUF_ERROR) {
      refuse("the gzip stream ends too early,");  // there is always room, so input is missing
    } else if (code != Z_OK) {
      refuse(z.msg != nullptr ? z.msg : "the gzip stream is damaged");
    }
  }
  out.resize(made);
  return out;
}

#else

inline constexpr bool has_zlib = false;

[[noreturn]] inline std::vector<std::uint8_t> gunzip(const std::string& path,
                                                     const std::vector<std::uint8_t>&) {
  throw error(
      text(path, " is compressed and this program was built without zlib: unpack it with `gunzip ",
           path, "`, or build with zlib"));
}

#endif

}  // namespace detail

/// All bytes of a file, unpacked if it is a gzip file, whatever its name.
inline std::vector<std::uint8_t> read_unpacked(const std::string& path) {
  std::vector<std::uint8_t> bytes = read_file(path);
  if (bytes.size() < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b) return bytes;
  return detail::gunzip(path, std::move(bytes));
}

}  // namespace cordee::inline CORDEE_ABI
