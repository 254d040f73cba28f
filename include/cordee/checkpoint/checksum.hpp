// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Checksums of a folder's files: XXH3 with 64 bits, in a file that `xxhsum --check` reads.
//
//   XXH3 (common.safetensors) = 8a2b6c1d0f9e7a35
//   XXH3 (rank-0.safetensors) = 01c4d2a9b7e68f30
//
// xxhsum 0.8.1, which Debian 12 has, reads XXH3 in this form alone; lists of an older version have
// lines "XXH3_8a2b6c1d0f9e7a35  common.safetensors" and are read, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <xxhash.h>

#include <cordee/core/error.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// XXH3 of a file's bytes, read 64 KiB at a time. Throws io::read_error.
inline std::uint64_t checksum_of(const std::string& path) {
  const io::input_file file(path);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (!state || XXH3_64bits_reset(state.get()) != XXH_OK) throw std::bad_alloc();
  std::vector<std::uint8_t> block(std::size_t{1} << 16);
  for (std::uint64_t at = 0; at < file.size();) {
    const auto piece = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), file.size() - at)));
    file.read_at(at, piece);
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
    at += piece.size();
  }
  return XXH3_64bits_digest(state.get());
}

/// The checksums of files by their names.
using checksum_table = std::map<std::string, std::uint64_t>;

inline std::string checksum_text(const checksum_table& checksums) {
  std::string text;
  for (const auto& [name, sum] : checksums)
    text += concat("XXH3 (", name, ") = ", io::hexadecimal(sum, 16), "\n");
  return text;
}
inline std::string older_checksum_text(const checksum_table& checksums) {
  std::string text;
  for (const auto& [name, sum] : checksums)
    text += concat("XXH3_", io::hexadecimal(sum, 16), "  ", name, "\n");
  return text;
}

/// Throws error for a text that checksum_text did not make: any change of a byte is one of a
/// checksum, of a name, or found here.
inline checksum_table parse_checksums(std::string_view text, const std::string& path) {
  constexpr std::string_view before = "XXH3 (", between = ") = ";
  constexpr std::size_t digits = 16, around = before.size() + between.size() + digits;
  checksum_table checksums;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const bool older = !line.starts_with(before);
    if (line.size() <= (older ? 5 + digits + 2 : around)) continue;
    std::uint64_t sum = 0;
    for (const char c : older ? line.substr(5, digits) : line.substr(line.size() - digits))
      sum = sum << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    const auto name =
        older ? line.substr(5 + digits + 2) : line.substr(before.size(), line.size() - around);
    checksums[std::string(name)] = sum;
  }
  if (checksums.empty() ||
      (checksum_text(checksums) != text && older_checksum_text(checksums) != text))
    throw error(concat(path, " is not a list of checksums"));
  return checksums;
}

/// Throws error unless the file of that name in `folder` has the checksum that the table states.
inline void expect_checksum(const std::string& folder, const std::string& name,
                            const checksum_table& checksums) {
  const auto stated = checksums.find(name);
  if (stated == checksums.end()) throw error(concat(folder, "/checksums does not list ", name));
  if (checksum_of(folder + "/" + name) != stated->second)
    throw error(concat(folder, "/", name, " does not have its checksum"));
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
