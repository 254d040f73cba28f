// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cordee/io/file.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

void write(const std::string& path, const file_bytes& bytes) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(bytes))};
  detail::io::write_file(path, pieces);
}

// No file may grow beyond this while it lives: to the writer, a disk that fills up.
class full_disk {
 public:
  explicit full_disk(rlim_t most) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit info{most, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &info);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("file: a written file reads back, for any length") {
  const folder f;
  for (const std::size_t n : {0u, 1u, 2u, 65535u, 65536u, 65537u, 300000u}) {
    CAPTURE(n);
    file_bytes bytes(n);
    for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    write(f.file("x"), bytes);
    CHECK(detail::io::read_file(f.file("x")) == bytes);
    CHECK(f.files() == 1);
  }
}

TEST_CASE("file: pieces are concatenated, empty ones too") {
  const folder f;
  const file_bytes a{1, 2}, b, c{3};
  const std::span<const std::byte> pieces[] = {
      std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), std::as_bytes(std::span(c))};
  detail::io::write_file(f.file("x"), pieces);
  CHECK(f.get("x") == file_bytes{1, 2, 3});
}

TEST_CASE("file: on a full disk the old file remains and no temporary file is left") {
  const folder f;
  const file_bytes old{1, 2, 3};
  write(f.file("x"), old);
  std::string text;
  {
    const full_disk full(4096);
    text = message_of<error>([&] { write(f.file("x"), file_bytes(100000, 7)); });
  }
  CHECK(contains_all(text, {"cannot write " + f.file("x"), "unchanged", "Free some space"}));
  CHECK(f.get("x") == old);
  CHECK(f.files() == 1);
}

TEST_CASE("file: a failed write is an error that names the file and the reason") {
  const folder f;
  f.put("plain", {1});
  const auto try_at = [&](const std::string& path) {
    return message_of<error>([&] { write(path, {1, 2, 3}); });
  };
  CHECK(contains_all(try_at(f.file("absent/x")), {f.file("absent/x"), "No such file"}));
  CHECK(contains_all(try_at(f.file("plain/x")), {f.file("plain/x"), "Not a directory"}));
  CHECK(contains_all(try_at(f.file("")), {"not a regular file"}));
  CHECK(contains_all(try_at("/dev/full"), {"/dev/full", "not a regular file"}));
  CHECK(f.files() == 1);
  CHECK(f.get("plain") == file_bytes{1});
}

TEST_CASE("file: a failed read is an error that names the file and the reason") {
  const folder f;
  CHECK(contains_all(message_of<error>([&] { detail::io::read_file(f.file("absent")); }),
                     {f.file("absent"), "No such file"}));
  CHECK(contains_all(message_of<error>([&] { detail::io::read_file(f.file("")); }),
                     {"Is a directory"}));
  CHECK_FALSE(detail::io::is_readable(f.file("absent")));
}
