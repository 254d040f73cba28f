// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <functional>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordee/io/atomic_file.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

void write(const std::string& path, const file_bytes& bytes) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(bytes))};
  write_file(path, pieces);
}
std::string refusal(const std::string& path) {
  return message_of<error>([&] { write(path, {1, 2, 3}); });
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

class creation_mask {
 public:
  explicit creation_mask(mode_t mask) : before_(::umask(mask)) {}
  creation_mask(const creation_mask&) = delete;
  creation_mask& operator=(const creation_mask&) = delete;
  ~creation_mask() { ::umask(before_); }

 private:
  mode_t before_;
};

// Runs f in a process that is killed in it; returns after that.
template <class F>
void in_killed_process(const F& f) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    f();
    std::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

mode_t mode_of(const std::string& path) {
  struct ::stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}
bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

TEST_CASE("atomic_file: pieces are concatenated, empty ones too") {
  const folder f;
  const file_bytes a{1, 2}, b, c{3};
  const std::span<const std::byte> pieces[] = {
      std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), std::as_bytes(std::span(c))};
  write_file(f.file("x"), pieces);
  CHECK(f.get("x") == file_bytes{1, 2, 3});
  CHECK(f.files() == 1);
}

TEST_CASE("atomic_file: without commit nothing changes and nothing remains") {
  const folder f;
  f.put("x", {1});
  {
    atomic_file file(f.file("x"));
    file.write(std::as_bytes(std::span("new")));
    CHECK(f.files() == 2);
    CHECK(f.get("x") == file_bytes{1});
  }
  CHECK(f.files() == 1);
  CHECK(f.get("x") == file_bytes{1});
}

TEST_CASE("atomic_file: on a full disk the old file remains and no partial file is left") {
  const folder f;
  const file_bytes old{1, 2, 3};
  write(f.file("x"), old);
  for (const char* name : {"x", "new"}) {
    std::string text;
    {
      const full_disk full(4096);
      text = message_of<error>([&] { write(f.file(name), file_bytes(100000, 7)); });
    }
    CHECK(contains_all(
        text, {"cannot write " + f.file(name), "Free some space",
               name == std::string("x") ? "the old file is unchanged" : "no file was made"}));
  }
  CHECK(f.get("x") == old);
  CHECK(f.files() == 1);
}

TEST_CASE("atomic_file: a failed write is an error that names the file, the reason and a remedy") {
  const folder f;
  f.put("plain", {1});
  CHECK(contains_all(refusal(f.file("absent/x")), {f.file("absent/x"), "No such file",
                                                   "Create the folder " + f.file("absent")}));
  CHECK(contains_all(refusal(f.file("plain/x")), {f.file("plain/x"), "Not a directory"}));
  CHECK(contains_all(refusal(f.file("")), {"not a regular file"}));
  CHECK(contains_all(refusal("/dev/full"), {"/dev/full", "not a regular file"}));
  CHECK(contains_all(refusal(f.file(std::string(300, 'x'))), {"File name too long"}));
  CHECK(f.files() == 1);
  CHECK(f.get("plain") == file_bytes{1});
}

TEST_CASE("atomic_file: a folder that may not be written is an error that names it") {
  const folder f;
  REQUIRE(::chmod(f.file("").c_str(), 0555) == 0);
  const bool root = ::geteuid() == 0;
  if (root) REQUIRE(::seteuid(65534) == 0);  // root may write everywhere
  const std::string text = refusal(f.file("x"));
  if (root) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::chmod(f.file("").c_str(), 0755) == 0);
  CHECK(contains_all(text, {"cannot write " + f.file("x"), "Permission denied", "no file was made",
                            "Make the folder", "writable or choose another path"}));
  CHECK(f.files() == 0);
}

TEST_CASE("atomic_file: the longest file names can be written") {
  const folder f;
  const std::string name(255, 'n');
  write(f.file(name), {7});
  CHECK(f.get(name) == file_bytes{7});
}

TEST_CASE("atomic_file: files that a process of the same id left do not hinder a writer") {
  const folder f;
  for (int k = 0; k < 300; ++k) f.put(concat("x.", ::getpid(), ".", k, ".partial"), {1});
  write(f.file("x"), {7});
  CHECK(f.get("x") == file_bytes{7});
}

TEST_CASE("atomic_file: a name that is taken is drawn again") {
  const folder f;
  std::vector<std::uint64_t> numbers{3, 5, 5, 5, 4};  // from the back
  const std::function<std::uint64_t()> draw = [&] {
    const std::uint64_t n = numbers.back();
    numbers.pop_back();
    return n;
  };
  numbers.push_back(5);
  atomic_file first(f.file("x"), draw);
  CHECK(numbers.size() == 5);
  atomic_file second(f.file("x"), draw);
  CHECK(numbers.size() == 4);
  atomic_file third(f.file("x"), draw);
  CHECK(numbers.empty());
  CHECK(f.files() == 3);
  const std::function<std::uint64_t()> always_5 = [] { return std::uint64_t{5}; };
  CHECK(contains_all(message_of<error>([&] { atomic_file(f.file("x"), always_5); }),
                     {"File exists", "no file was made"}));
}

TEST_CASE("atomic_file: the partial file of a killed writer is removed by the next one") {
  const folder f;
  f.put("x", {1});
  f.put("x.partial", {2});
  in_killed_process([&] {
    static atomic_file file(f.file("x"));  // not destroyed
    file.write(std::as_bytes(std::span("new")));
  });
  CHECK(f.files() == 3);
  CHECK(f.get("x") == file_bytes{1});
  write(f.file("other"), {4});  // of another name: removes nothing
  CHECK(f.files() == 4);
  write(f.file("x"), {3});
  CHECK(f.files() == 3);
  CHECK(f.get("x") == file_bytes{3});
  CHECK(exists(f.file("x.partial")));
}

TEST_CASE("atomic_file: the partial file of a live writer stays, and the last commit counts") {
  const folder f;
  atomic_file first(f.file("x"));
  first.write(std::as_bytes(std::span("a", 1)));
  write(f.file("x"), {'b'});
  CHECK(f.files() == 2);
  CHECK(f.get("x") == file_bytes{'b'});
  first.commit();
  CHECK(f.get("x") == file_bytes{'a'});
  CHECK(f.files() == 1);
}

TEST_CASE("atomic_file: partial files of other machines and boots are removed after a day") {
  const folder f;
  const std::string other = f.put("x.ffffffff.0123456789abcdef.partial", {1});
  const std::string locked = f.put("x.fffffffe.0123456789abcdef.partial", {1});
  const descriptor lock(::open(locked.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(lock.number(), LOCK_EX) == 0);
  timeval now{};
  ::gettimeofday(&now, nullptr);
  const auto age = [&](const std::string& path, long seconds) {
    const timeval times[] = {{now.tv_sec - seconds, 0}, {now.tv_sec - seconds, 0}};
    REQUIRE(::utimes(path.c_str(), times) == 0);
  };
  age(other, 23 * 3600);
  age(locked, 1000 * 3600);
  write(f.file("x"), {3});
  CHECK(exists(other));
  age(other, 25 * 3600);
  write(f.file("x"), {3});
  CHECK_FALSE(exists(other));
  CHECK(exists(locked));
}

TEST_CASE("atomic_file: symbolic links stay, and what they lead to is replaced") {
  const folder f, elsewhere;
  elsewhere.put("target", {1});
  REQUIRE(::symlink(elsewhere.file("target").c_str(), f.file("link").c_str()) == 0);
  REQUIRE(::symlink("link", f.file("relative").c_str()) == 0);
  REQUIRE(::symlink(elsewhere.file("new").c_str(), f.file("dangling").c_str()) == 0);
  REQUIRE(::symlink("loop", f.file("loop").c_str()) == 0);
  write(f.file("relative"), {2});
  CHECK(elsewhere.get("target") == file_bytes{2});
  write(f.file("dangling"), {3});
  CHECK(elsewhere.get("new") == file_bytes{3});
  CHECK(contains_all(refusal(f.file("loop")), {f.file("loop"), "symbolic links"}));
  for (const char* name : {"link", "relative", "dangling", "loop"})
    CHECK(S_ISLNK(mode_of(f.file(name))));
  CHECK(f.files() == 4);
  CHECK(elsewhere.files() == 2);
}

TEST_CASE("atomic_file: the mode of an existing file is kept, a new one has the umask's") {
  const folder f;
  const creation_mask mask(027);
  write(f.file("x"), {1});
  CHECK((mode_of(f.file("x")) & 07777) == 0640);
  for (const mode_t mode : {0600u, 0664u, 0444u, 0777u}) {
    CAPTURE(mode);
    REQUIRE(::chmod(f.file("x").c_str(), mode) == 0);
    {
      const atomic_file file(f.file("x"));  // nobody else reads the partial file of a private one
      for (const auto& entry : std::filesystem::directory_iterator(f.file("")))
        CHECK((mode_of(entry.path().string()) & 07777 & ~(mode | 0600)) == 0);
    }
    write(f.file("x"), {2});
    CHECK((mode_of(f.file("x")) & 07777) == mode);
  }
}

TEST_CASE("atomic_file: the owner of an existing file is kept where that is permitted") {
  if (::geteuid() != 0) return support::skip("only root gives a file to another owner");
  const folder f;
  f.put("x", {1});
  REQUIRE(::chown(f.file("x").c_str(), 65534, 65534) == 0);
  write(f.file("x"), {2});
  struct ::stat status {};
  REQUIRE(::stat(f.file("x").c_str(), &status) == 0);
  CHECK(status.st_uid == 65534);
}
