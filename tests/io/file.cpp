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
  write_file(path, pieces);
}

// No file may grow beyond this while it lives: to the writer, a disk that fills up.
class full_disk {
 public:
  explicit full_disk(rlim_t most) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{most, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
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

TEST_CASE("a file that was written reads back, whatever its length") {
  const folder f;
  for (const std::size_t n : {0u, 1u, 2u, 65535u, 65536u, 65537u, 300000u}) {
    CAPTURE(n);
    file_bytes bytes(n);
    for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 >> 3);
    write(f.file("x"), bytes);
    CHECK(read_file(f.file("x")) == bytes);
    CHECK(f.files() == 1);
  }
}

TEST_CASE("pieces are written one after another, empty ones too") {
  const folder f;
  const file_bytes a{1, 2}, b, c{3};
  const std::span<const std::byte> pieces[] = {
      std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), std::as_bytes(std::span(c))};
  write_file(f.file("x"), pieces);
  CHECK(f.get("x") == file_bytes{1, 2, 3});
}

TEST_CASE("a disk that fills up leaves the old file, and nothing else") {
  const folder f;
  const file_bytes old{1, 2, 3};
  write(f.file("x"), old);
  std::string text;
  {
    const full_disk full(4096);
    text = said<error>([&] { write(f.file("x"), file_bytes(100000, 7)); });
  }
  CHECK(says(text, {"cannot write " + f.file("x"), "untouched", "Free some space"}));
  CHECK(f.get("x") == old);
  CHECK(f.files() == 1);
}

TEST_CASE("what cannot be written is named, with the reason") {
  const folder f;
  f.put("plain", {1});
  const auto try_at = [&](const std::string& path) {
    return said<error>([&] { write(path, {1, 2, 3}); });
  };
  CHECK(says(try_at(f.file("absent/x")), {f.file("absent/x"), "No such file"}));
  CHECK(says(try_at(f.file("plain/x")), {f.file("plain/x"), "Not a directory"}));
  CHECK(says(try_at(f.file("")), {"not a regular file"}));
  CHECK(says(try_at("/dev/full"), {"/dev/full", "not a regular file"}));
  CHECK(f.files() == 1);
  CHECK(f.get("plain") == file_bytes{1});
}

TEST_CASE("what cannot be read is named, with the reason") {
  const folder f;
  CHECK(
      says(said<error>([&] { read_file(f.file("absent")); }), {f.file("absent"), "No such file"}));
  CHECK(says(said<error>([&] { read_file(f.file("")); }), {"Is a directory"}));
  CHECK_FALSE(readable(f.file("absent")));
}
