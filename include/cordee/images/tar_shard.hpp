// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the members of a tar file lie in it, from their headers alone, which libarchive reads
// (ustar, pax, GNU). Nothing is extracted: a name is a key, never a path. The tar is not
// compressed, so that members can be read at their offsets.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// A regular file in a tar: its bytes are those at `offset` of the tar.
struct tar_member {
  std::string name;
  std::uint64_t offset = 0, size = 0;
  std::string refusal;  // why it must not be used; empty if it may
};

/// The program that decompresses a file that begins so; empty if it is not known as compressed.
inline std::string_view decompressor_of(std::span<const std::uint8_t> file) {
  const auto begins = [&](std::initializer_list<std::uint8_t> magic) {
    return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
  };
  if (begins({0x1f, 0x8b})) return "gunzip";
  if (begins({'B', 'Z', 'h'})) return "bunzip2";
  if (begins({0xfd, '7', 'z', 'X', 'Z'})) return "unxz";
  if (begins({0x28, 0xb5, 0x2f, 0xfd})) return "unzstd";
  if (begins({0x04, 0x22, 0x4d, 0x18})) return "unlz4";
  return {};
}

/// Why a member of that name and kind is suspicious; empty if it is a regular file at a relative
/// path.
inline std::string refusal_of(::archive_entry* entry, std::string_view name) {
  if (name.empty()) return "it has no name";
  if (archive_entry_hardlink(entry) != nullptr) return "it is a hard link";
  if (archive_entry_filetype(entry) == AE_IFLNK) return "it is a symbolic link";
  if (archive_entry_filetype(entry) != AE_IFREG) return "it is a device or a pipe";
  if (name.front() == '/') return "its path is absolute";
  if (concat("/", name, "/").find("/../") != std::string::npos) return "its path contains ..";
  if (archive_entry_sparse_count(entry) > 0)
    return "it is sparse, so its bytes are not in one piece";
  return {};
}

/// Whether all bytes from `begin` to the file's end are zero, and there are 512 at least.
inline bool is_zero_from(const detail::io::input_file& file, std::uint64_t begin) {
  begin = std::min(begin, file.size() - 512);
  std::array<std::uint8_t, 4096> block{};
  while (begin < file.size()) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(file.size() - begin, block.size()));
    const auto part = std::span(block).first(n);
    file.read_at(begin, part);
    if (std::any_of(part.begin(), part.end(), [](std::uint8_t b) { return b != 0; })) return false;
    begin += n;
  }
  return true;
}

/// The members of a tar but for its folders, in their order. Throws error if it is no tar,
/// truncated or compressed, or a member is larger than the file.
inline std::vector<tar_member> index_tar(const detail::io::input_file& file) {
  std::array<std::uint8_t, 8> magic{};
  const auto known = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), magic.size()));
  file.read_at(0, std::span(magic).first(known));
  if (const auto program = decompressor_of(std::span(magic).first(known)); !program.empty())
    throw error(concat(file.path(), ": it is compressed, so images in it cannot be read at their ",
                       "offsets: run `", program, " ", file.path(), "`"));
  if (file.size() < 512)
    throw error(concat(file.path(), ": ", file.size(), " bytes are no tar file; fetch it again"));

  const std::unique_ptr<::archive, int (*)(::archive*)> tar(archive_read_new(), archive_read_free);
  if (!tar) throw error("libarchive: no memory");
  const auto refuse = [&] {
    const char* const reason = archive_error_string(tar.get());
    throw error(concat(file.path(), ": damaged, truncated or no tar file: ",
                       reason != nullptr ? reason : "unknown error", "; fetch it again"));
  };
  if (archive_read_support_format_tar(tar.get()) != ARCHIVE_OK ||
      archive_read_open_filename(tar.get(), file.path().c_str(), 10240) != ARCHIVE_OK)
    refuse();
  std::vector<tar_member> members;
  for (;;) {
    ::archive_entry* entry = nullptr;
    const int code = archive_read_next_header(tar.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) refuse();
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    const char* path = archive_entry_pathname(entry);
    if (path == nullptr) path = archive_entry_pathname_utf8(entry);  // in another locale
    tar_member member{path != nullptr ? path : "", 0, 0, {}};
    member.refusal = refusal_of(entry, member.name);
    if (member.refusal.empty()) {
      // The reader stands behind the headers; what precedes is not compressed.
      member.offset = static_cast<std::uint64_t>(archive_filter_bytes(tar.get(), 0));
      member.size = static_cast<std::uint64_t>(archive_entry_size(entry));
      if (member.offset > file.size() || member.size > file.size() - member.offset)
        throw error(concat(file.path(), ": member ", member.name, " of ", member.size,
                           " bytes at offset ", member.offset, " ends beyond the file's ",
                           file.size(), "; it is truncated: fetch it again"));
    }
    members.push_back(std::move(member));
  }
  // A tar that is cut between two members, or has a block of zeros among them, ends for libarchive.
  if (!is_zero_from(file, static_cast<std::uint64_t>(archive_filter_bytes(tar.get(), 0))))
    throw error(
        concat(file.path(), ": it is truncated, damaged or several tar files in one: blocks ",
               "of zeros do not end it after ", members.size(), " members; fetch it again"));
  return members;
}

}  // namespace cordee::inline CORDEE_ABI::detail::images
