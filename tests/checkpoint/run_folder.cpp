// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cordee/checkpoint/run_folder.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
namespace fs = std::filesystem;

namespace {

// The program's own fsync and rename, below, replace the C library's: they record the calls.
std::vector<std::string>* recorded = nullptr;

}  // namespace

extern "C" int fsync(int file) {
  if (recorded != nullptr)
    recorded->push_back("flush " +
                        fs::read_symlink(concat("/proc/self/fd/", file)).filename().string());
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (recorded != nullptr)
    recorded->push_back(concat("rename ", fs::path(from).filename().string(), " ",
                               fs::path(to).filename().string(),
                               fs::is_symlink(to) ? ", which it replaces" : ""));
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

void make(const run_folder& all, const folder& files, std::int64_t step, int keep) {
  all.begin(step);
  files.put("runs/" + name_of(step) + ".partial/file", {static_cast<std::uint8_t>(step)});
  all.finalize(step, keep);
}

}  // namespace

TEST_CASE("run_folder: finalizing renames, moves latest, and keeps the newest ones") {
  const folder files;
  const run_folder all(files.file("runs"));
  CHECK(all.steps().empty());
  all.create();
  for (const std::int64_t step : {5, 10, 200000000, 400}) make(all, files, step, 2);
  CHECK(all.steps() == std::vector<std::int64_t>{200000000, 400, 10});  // of those up to 400, two
  CHECK(fs::read_symlink(files.file("runs/latest")) == "step-00000400");
  CHECK(files.get("runs/latest/file") == file_bytes{400 & 255});
  make(all, files, 200000000, 2);  // replaces one of the same step
  CHECK(all.steps() == std::vector<std::int64_t>{200000000, 400});
  CHECK(fs::read_symlink(files.file("runs/latest")) == "step-200000000");
}

TEST_CASE("run_folder: each name is durable before what depends on it") {
  const folder files;
  const run_folder all(files.file("a/b/runs"));
  const std::string root = fs::path(files.file("")).parent_path().filename().string();
  std::vector<std::string> calls;
  recorded = &calls;
  all.create();
  recorded = nullptr;
  CHECK(calls == std::vector<std::string>{"flush b", "flush a", "flush " + root});
  calls.clear();
  all.begin(7);
  recorded = &calls;
  all.create();  // it exists
  all.finalize(7, 1);
  recorded = nullptr;
  CHECK(calls == std::vector<std::string>{"rename step-00000007.partial step-00000007",
                                          "flush runs", "rename latest.partial latest",
                                          "flush runs"});
  calls.clear();
  all.begin(8);
  recorded = &calls;
  all.finalize(8, 2);
  recorded = nullptr;
  CHECK(calls ==  // `latest` is there at every moment
        std::vector<std::string>{"rename step-00000008.partial step-00000008", "flush runs",
                                 "rename latest.partial latest, which it replaces", "flush runs"});
}

TEST_CASE("run_folder: what killed processes left is removed, everything else stays") {
  const folder files;
  const run_folder all(files.file("runs"));
  all.create();
  make(all, files, 3, 2);
  for (const char* name : {"step-00000004.partial", "step-00000001.removed", "step-1", "step-x"})
    fs::create_directories(files.file(concat("runs/", name)));
  files.put("runs/step-00000004.partial/file", {1});
  files.put("runs/notes", {1});
  all.remove_strays();
  CHECK(all.steps() == std::vector<std::int64_t>{3});
  CHECK_FALSE(fs::exists(files.file("runs/step-00000004.partial")));
  CHECK_FALSE(fs::exists(files.file("runs/step-00000001.removed")));
  for (const char* name : {"step-1", "step-x", "notes", "latest"})
    CHECK_MESSAGE(fs::exists(files.file(concat("runs/", name))), name);
}

TEST_CASE("run_folder: damaged checkpoints of one step are numbered, and none is removed") {
  const folder files;
  const run_folder all(files.file("runs"));
  all.create();
  CHECK(all.damaged() == 0);
  for (const char* name : {".damaged", ".damaged.2", ".damaged.3"}) {
    make(all, files, 3, 2);
    files.put("runs/step-00000003/order", {static_cast<std::uint8_t>(all.damaged())});
    CHECK(all.set_damaged_aside(3) == all.final_path(3) + name);
    CHECK(all.steps().empty());
  }
  CHECK(all.set_damaged_aside(4) == "");  // which there is not
  all.remove_strays();
  CHECK(all.damaged() == 3);
  CHECK(files.get("runs/step-00000003.damaged/order") == file_bytes{0});
  CHECK(files.get("runs/step-00000003.damaged.2/order") == file_bytes{1});
}

TEST_CASE("run_folder: a folder that cannot be made is an error with its name") {
  const folder files;
  const run_folder all(files.put("file", {1}) + "/runs");
  CHECK(contains_all(message_of<error>([&] { all.create(); }),
                     {"checkpoint: cannot create", "file/runs", "name a folder"}));
}
