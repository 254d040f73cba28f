// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <numeric>

#include <doctest/doctest.h>

#include <cordee/images/tar_shard.hpp>

#include "tests/images/records.hpp"
#include "tests/images/tar.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::images;
using namespace support;

namespace {

std::vector<tar_member> members(const file_bytes& tar) {
  const folder f;
  return index_tar(detail::io::input_file(f.put("x.tar", tar)));
}
std::string refusal(const file_bytes& tar) {
  return message_of<error>([&] { members(tar); });
}
file_bytes content(const file_bytes& tar, const tar_member& m) {
  const auto begin = tar.begin() + static_cast<std::ptrdiff_t>(m.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(m.size)};
}

/// Writes the size of the member whose header is at `at`, and the header's checksum.
void set_size(file_bytes& tar, std::size_t at, std::string_view digits) {
  std::copy(digits.begin(), digits.end(), tar.begin() + static_cast<std::ptrdiff_t>(at) + 124);
  const auto header = tar.begin() + static_cast<std::ptrdiff_t>(at);
  std::fill(header + 148, header + 156, std::uint8_t{' '});
  char sum[8];
  std::snprintf(sum, sizeof sum, "%06o", std::accumulate(header, header + 512, 0u));
  std::copy(sum, sum + 7, header + 148);
}

}  // namespace

TEST_CASE("tar shard: members of every tar format are where the index says") {
  const std::string deep(150, 'd'), unicode = "\xc3\xa9toile/1.jpg";
  const std::vector<tar_entry> entries{{"n01", {}, AE_IFDIR},
                                       {"n01/1.jpg", file_bytes(1000, 7)},
                                       {"n01/1.cls", to_bytes("3")},
                                       {"empty.jpg", {}},
                                       {deep + "/" + deep + ".jpg", file_bytes(512, 8)},
                                       {unicode, file_bytes(513, 9)},
                                       {"last.jpg", file_bytes(70000, 10)}};
  for (const auto format : {archive_write_set_format_pax_restricted, archive_write_set_format_pax,
                            archive_write_set_format_gnutar}) {
    const file_bytes tar = make_tar(entries, format);
    const std::vector<tar_member> found = members(tar);
    REQUIRE(found.size() == entries.size() - 1);  // no folder
    for (std::size_t k = 0; k < found.size(); ++k) {
      CHECK(found[k].name == entries[k + 1].name);
      CHECK(found[k].refusal == "");
      CHECK(content(tar, found[k]) == entries[k + 1].data);
    }
  }
}

TEST_CASE("tar shard: links, devices and paths that leave the folder are named as such") {
  const file_bytes tar = make_tar({{"a.jpg", file_bytes(10, 1)},
                                   {"b.jpg", {}, AE_IFLNK, "a.jpg"},
                                   {"c.jpg", {}, AE_IFREG, "a.jpg", true},
                                   {"/etc/d.jpg", file_bytes(10, 1)},
                                   {"../e.jpg", file_bytes(10, 1)},
                                   {"x/../../f.jpg", file_bytes(10, 1)},
                                   {"g.jpg", {}, AE_IFIFO},
                                   {"h.jpg", {}, AE_IFCHR},
                                   {"x..y/i..jpg", file_bytes(10, 1)}});
  std::vector<std::string> refusals;
  for (const tar_member& m : members(tar)) refusals.push_back(m.refusal);
  CHECK(refusals == std::vector<std::string>{"", "it is a symbolic link", "it is a hard link",
                                             "its path is absolute", "its path contains ..",
                                             "its path contains ..", "it is a device or a pipe",
                                             "it is a device or a pipe", ""});
}

TEST_CASE("tar shard: compressed tars are refused with the program that decompresses them") {
  for (const auto& [magic, program] : {std::pair{file_bytes{0x1f, 0x8b, 8, 0}, "gunzip"},
                                       std::pair{file_bytes{'B', 'Z', 'h', '9'}, "bunzip2"},
                                       std::pair{file_bytes{0xfd, '7', 'z', 'X', 'Z', 0}, "unxz"},
                                       std::pair{file_bytes{0x28, 0xb5, 0x2f, 0xfd}, "unzstd"},
                                       std::pair{file_bytes{0x04, 0x22, 0x4d, 0x18}, "unlz4"}}) {
    file_bytes file = magic;
    file.resize(2000);
    CHECK(contains_all(refusal(file), {"x.tar: it is compressed", concat("run `", program, " ")}));
  }
}

TEST_CASE("tar shard: a truncated tar is refused at every block, also between members") {
  const file_bytes tar = make_tar({{"a.jpg", file_bytes(600, 1)}, {"b.jpg", file_bytes(600, 1)}},
                                  archive_write_set_format_ustar);
  REQUIRE(members(tar).size() == 2);
  for (std::size_t n = 0; n < 3072; n += n % 512 == 0 ? 1 : 511) {
    INFO(n, " bytes");
    CHECK(
        contains_all(refusal(file_bytes(tar.begin(), tar.begin() + static_cast<std::ptrdiff_t>(n))),
                     {"x.tar: ", "fetch it again"}));
  }
  CHECK(members(file_bytes(tar.begin(), tar.begin() + 4096)).size() ==
        2);                // padding may be missing
  file_bytes holed = tar;  // the second header: libarchive ends there
  std::fill(holed.begin() + 1536, holed.begin() + 2048, std::uint8_t{0});
  CHECK(contains_all(refusal(holed), {"blocks of zeros do not end it after 1 members"}));
  file_bytes twice = tar;
  append(twice, tar);
  CHECK(contains_all(refusal(twice), {"several tar files in one"}));
}

TEST_CASE("tar shard: sizes that the file has not are refused before memory is made") {
  const file_bytes tar = make_tar({{"a.jpg", file_bytes(600, 1)}}, archive_write_set_format_ustar);
  for (const char* const digits : {"00000040000", "77777777777", "00007777777"}) {
    file_bytes large = tar;
    set_size(large, 0, digits);
    CHECK_FALSE(refusal(large).empty());
  }
  file_bytes binary = tar;  // GNU's form of numbers: 2^63 - 1 and a negative one
  set_size(binary, 0, std::string_view("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12));
  CHECK_FALSE(refusal(binary).empty());
  set_size(binary, 0, std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 12));
  CHECK_FALSE(refusal(binary).empty());
  CHECK(contains_all(refusal(file_bytes(2048, 'x')), {"damaged, truncated or no tar file"}));
}

TEST_CASE("tar shard: flipped bytes of headers end in members of the file, or an error") {
  const file_bytes tar =
      make_tar({{"a.jpg", file_bytes(600, 1)}, {std::string(200, 'b'), file_bytes(5, 1)}});
  const std::size_t step = 7;
  for (std::size_t at = 0; at < tar.size(); at += step) {
    file_bytes flipped = tar;
    flipped[at] ^= 0x08;
    try {
      for (const tar_member& m : members(flipped)) {
        const bool inside = m.offset <= tar.size() && m.size <= tar.size() - m.offset;
        CHECK(inside);
      }
    } catch (const error&) {
    }
  }
}
