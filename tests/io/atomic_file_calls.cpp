// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The calls by which atomic_file.hpp makes a file durable, in their order, and where they fail.
#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cordee/io/atomic_file.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

// The program's own fsync and rename, below, replace the C library's: they record the calls, and
// fsync fails with `failure` at call number `fails_at`.
struct disk_calls {
  std::string sequence{};  // f: a file is flushed, d: a folder is, r: a file is renamed
  std::size_t fails_at = ~std::size_t{0};
  int failure = 0;
};
disk_calls* recorded = nullptr;

struct recording {
  explicit recording(disk_calls& calls) { recorded = &calls; }
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  ~recording() { recorded = nullptr; }
};

}  // namespace

extern "C" int fsync(int file) {
  if (recorded != nullptr) {
    struct ::stat status {};
    ::fstat(file, &status);
    recorded->sequence += S_ISDIR(status.st_mode) ? 'd' : 'f';
    if (recorded->sequence.size() == recorded->fails_at) {
      errno = recorded->failure;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (recorded != nullptr) recorded->sequence += 'r';
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

void write(const std::string& path, const file_bytes& bytes) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(bytes))};
  write_file(path, pieces);
}
std::string refusal(const std::string& path) {
  return message_of<error>([&] { write(path, {1, 2, 3}); });
}

}  // namespace

TEST_CASE("atomic_file: the file is flushed, then renamed, then its folder is flushed") {
  const folder f;
  disk_calls calls;
  const recording on(calls);
  write(f.file("x"), {1});
  CHECK(calls.sequence == "frd");
}

TEST_CASE("atomic_file: a disk that fails to flush is an error, before the old file is touched") {
  const folder f;
  f.put("x", {1});
  disk_calls calls{.fails_at = 1, .failure = EIO};
  {
    const recording on(calls);
    CHECK(contains_all(refusal(f.file("x")), {f.file("x"), "Input/output", "unchanged"}));
  }
  CHECK(calls.sequence == "f");
  CHECK(f.get("x") == file_bytes{1});
  CHECK(f.files() == 1);
  calls = disk_calls{.fails_at = 3, .failure = EIO};
  {
    const recording on(calls);
    CHECK(contains_all(refusal(f.file("x")), {"wrote " + f.file("x"), "could not be flushed"}));
  }
  calls =
      disk_calls{.fails_at = 3, .failure = EINVAL};  // a file system that does not flush folders
  const recording on(calls);
  CHECK(refusal(f.file("x")).empty());
  CHECK(f.get("x") == file_bytes{1, 2, 3});
}
