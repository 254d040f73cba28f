// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/checkpoint/checksum.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

TEST_CASE("checksum_of: XXH3 of a file, whatever its length") {
  const folder files;
  CHECK(checksum_of(files.put("empty", {})) == 0x2d06800538d394c2u);  // of the specification
  for (const std::size_t length : {1u, 65535u, 65536u, 65537u, 200000u}) {
    file_bytes bytes(length);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
    CHECK(checksum_of(files.put("bytes", bytes)) == XXH3_64bits(bytes.data(), length));
  }
  CHECK(contains_all(message_of<error>([&] { checksum_of(files.file("absent")); }),
                     {"cannot read", "absent", "No such file"}));
  REQUIRE(::mkfifo(files.file("pipe").c_str(), 0600) ==
          0);  // nobody writes: to open it would block
  ::alarm(30);
  CHECK(contains_all(message_of<detail::io::read_error>([&] { checksum_of(files.file("pipe")); }),
                     {"/pipe", "a pipe or a device, not a regular file"}));
  ::alarm(0);
}

TEST_CASE("checksum_text: lines that xxhsum --check reads from version 0.8.1 on") {
  // As `xxhsum -H3` of version 0.8.1, Debian 12's, prints the sum of "hello\n".
  const folder files;
  const checksum_table table{{"a", checksum_of(files.put("a", {'h', 'e', 'l', 'l', 'o', '\n'}))}};
  CHECK(checksum_text(table) == "XXH3 (a) = 99fc819aaba2462a\n");
}

TEST_CASE("parse_checksums: reads what checksum_text writes, and refuses every changed byte") {
  const checksum_table table{{"a", 0x123456789abcdef0u}, {"rank-0.safetensors", 7}};
  const std::string older = "XXH3_123456789abcdef0  a\nXXH3_0000000000000007  rank-0.safetensors\n";
  CHECK(older_checksum_text(table) == older);
  const auto refused = [&](const std::string& other) {
    return message_of<error>([&] {
      if (parse_checksums(other, "x") == table) return;  // else a name or a sum is another one
      throw error("another table");
    });
  };
  for (const std::string& text : {checksum_text(table), older}) {
    CHECK(parse_checksums(text, "x") == table);
    for (std::size_t i = 0; i < text.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string other = text;
        other[i] = static_cast<char>(other[i] ^ (1 << bit));
        CHECK_MESSAGE(refused(other) != "", i);
      }
    for (std::size_t length = 0; length < text.size(); ++length)
      CHECK_MESSAGE(refused(text.substr(0, length)) != "", length);
  }
}

TEST_CASE("expect_checksum: a file that is changed, absent or not listed is named") {
  const folder files;
  files.put("a", {1, 2, 3});
  const std::string at = files.file("");
  const checksum_table table{{"a", checksum_of(files.file("a"))}, {"b", 1}};
  expect_checksum(at, "a", table);
  files.put("a", {1, 2, 2});
  CHECK(contains_all(message_of<error>([&] { expect_checksum(at, "a", table); }),
                     {"/a does not have its checksum"}));
  CHECK(contains_all(message_of<error>([&] { expect_checksum(at, "b", table); }), {"cannot read"}));
  CHECK(contains_all(message_of<error>([&] { expect_checksum(at, "c", table); }),
                     {"checksums does not list c"}));
}
