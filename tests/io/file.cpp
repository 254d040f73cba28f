// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/io/file.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

// Ends the process if a read blocks, which no exception could do.
struct alarm_clock {
  alarm_clock() { ::alarm(30); }
  alarm_clock(const alarm_clock&) = delete;
  alarm_clock& operator=(const alarm_clock&) = delete;
  ~alarm_clock() { ::alarm(0); }
};

}  // namespace

TEST_CASE("file: all bytes are read, for any length") {
  const folder f;
  for (const std::size_t n : {0u, 1u, 2u, 65535u, 65536u, 65537u, 300000u}) {
    CAPTURE(n);
    file_bytes bytes(n);
    for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    CHECK(read_file(f.put("x", bytes)) == bytes);
    const input_file file(f.file("x"));
    CHECK(file.size() == n);
    file_bytes last(std::min<std::size_t>(n, 3));
    file.read_at(n - last.size(), last);
    CHECK(std::equal(last.begin(), last.end(), bytes.end() - static_cast<long>(last.size())));
  }
}

TEST_CASE("file: a failed read is an error that names the file and the reason") {
  const folder f;
  const auto refusal = [](const std::string& path) {
    return message_of<error>([&] { read_file(path); });
  };
  CHECK(contains_all(refusal(f.file("absent")),
                     {f.file("absent"), "No such file", "check the path"}));
  CHECK(contains_all(refusal(f.file("")), {f.file(""), "a folder, not a regular file"}));
  CHECK_FALSE(is_readable(f.file("absent")));
}

TEST_CASE("file: a pipe and a device without end are refused at once") {
  const folder f;
  const alarm_clock deadline;
  REQUIRE(::mkfifo(f.file("pipe").c_str(), 0600) == 0);  // nobody writes: to open it would block
  for (const std::string& path : {f.file("pipe"), std::string("/dev/zero")}) {
    CAPTURE(path);
    CHECK(contains_all(message_of<error>([&] { read_file(path); }),
                       {path, "a pipe or a device, not a regular file", "copy the data into one"}));
  }
}

TEST_CASE("file: a file larger than the memory is refused by its size") {
  const folder f;
  f.put("x", {});
  REQUIRE(::truncate(f.file("x").c_str(), off_t{1} << 42) == 0);  // sparse: takes no space
  CHECK(contains_all(message_of<error>([&] { read_file(f.file("x")); }),
                     {f.file("x"), "4398046511104 bytes", "do not fit the memory"}));
}

TEST_CASE(
    "file: a file that shrinks after it was opened is an error; appended bytes are not read") {
  const folder f;
  const input_file file(f.put("x", {1, 2, 3, 4}));
  f.put("x", {1, 2, 3, 4, 5});
  CHECK(file.size() == 4);
  file_bytes bytes(4);
  file.read_at(0, bytes);
  CHECK(bytes == file_bytes{1, 2, 3, 4});
  REQUIRE(::truncate(f.file("x").c_str(), 3) == 0);
  CHECK(contains_all(message_of<error>([&] { file.read_at(0, bytes); }),
                     {f.file("x"), "at offset 3", "had 4 bytes when it was opened"}));
}
