// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Checksums of a folder's files: XXH3 with 64 bits, in a file that `xxhsum --check` reads.
//
//   XXH3_8a2b6c1d0f9e7a35  common.safetensors
//   XXH3_01c4d2a9b7e68f30  rank-0.safetensors
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// XXH3 of a file's bytes, read 64 KiB at a time. Throws error.
inline std::uint64_t checksum_of(const std::string& path) {
  const io::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw error(concat("cannot read ", path, ": ", io::error_message(errno)));
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (!state || XXH3_64bits_reset(state.get()) != XXH_OK) throw error("no memory for a checksum");
  std::vector<std::byte> block(std::size_t{1} << 16);
  for (;;) {
    const ssize_t n = ::read(file.number(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw error(concat("cannot read ", path, ": ", io::error_message(errno)));
    if (n == 0) return XXH3_64bits_digest(state.get());
    XXH3_64bits_update(state.get(), block.data(), static_cast<std::size_t>(n));
  }
}

/// The checksums of files by their names.
using checksum_table = std::map<std::string, std::uint64_t>;

inline std::string checksum_text(const checksum_table& checksums) {
  std::string text;
  for (const auto& [name, sum] : checksums) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "XXH3_%016llx", static_cast<unsigned long long>(sum));
    text += concat(digits, "  ", name, "\n");
  }
  return text;
}

/// Throws error for a text that checksum_text did not make: any change of a byte is one of a
/// checksum, of a name, or found here.
inline checksum_table parse_checksums(std::string_view text, const std::string& path) {
  constexpr std::string_view prefix = "XXH3_";
  constexpr std::size_t name_at = prefix.size() + 16 + 2;
  checksum_table checksums;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::uint64_t sum = 0;
    for (const char c : line.substr(std::min(line.size(), prefix.size())).substr(0, 16))
      sum = sum << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (line.size() > name_at) checksums[std::string(line.substr(name_at))] = sum;
  }
  if (checksums.empty() || checksum_text(checksums) != text)
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
