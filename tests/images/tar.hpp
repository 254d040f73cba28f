// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tar files for tests, written by libarchive.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

namespace support {

struct tar_entry {
  std::string name;
  std::vector<std::uint8_t> data;
  unsigned kind = AE_IFREG;
  std::string link{};  // of a symbolic or hard link
  bool hard = false;
};

/// `write_format` is of libarchive, such as archive_write_set_format_ustar.
inline std::vector<std::uint8_t> make_tar(
    const std::vector<tar_entry>& entries,
    int (*write_format)(::archive*) = archive_write_set_format_pax_restricted) {
  std::size_t room = 65536;
  for (const tar_entry& e : entries) room += e.data.size() + 8192;
  std::vector<std::uint8_t> out(room);
  std::size_t used = 0;
  ::archive* const tar = archive_write_new();
  write_format(tar);
  archive_write_set_bytes_per_block(tar, 10240);
  archive_write_open_memory(tar, out.data(), out.size(), &used);
  for (const tar_entry& e : entries) {
    ::archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, e.name.c_str());
    archive_entry_set_filetype(entry, e.kind);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(e.data.size()));
    if (e.hard)
      archive_entry_set_hardlink(entry, e.link.c_str());
    else if (!e.link.empty())
      archive_entry_set_symlink(entry, e.link.c_str());
    if (archive_write_header(tar, entry) < ARCHIVE_WARN)
      throw std::runtime_error(archive_error_string(tar));
    if (!e.data.empty()) archive_write_data(tar, e.data.data(), e.data.size());
    archive_entry_free(entry);
  }
  archive_write_close(tar);
  archive_write_free(tar);
  out.resize(used);
  return out;
}

}  // namespace support
