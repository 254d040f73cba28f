// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Faults of the world around a run that saves. After each: the error says what was found and the
// remedy, what was saved is whole and is resumed, and nothing partial has a final name.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skip.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;
namespace fs = std::filesystem;

namespace {

/// Calls `act` on rank 0 after step `at`.
struct at_step {
  std::int64_t at;
  std::function<void()> act;
  void step(const step_record& r) const {
    if (r.info.step + 1 == at) act();
  }
};

constexpr double epochs = 3;  // 11 steps

/// The error of a run on two ranks that saves every `every`; empty if there is none. Goes on from
/// what is in `runs`, unless that is read by another user.
std::string error_of_run(const std::string& runs, const at_step& fault,
                         checkpoint_interval every = {.steps = 2}, int keep = 100) {
  return error_message([&] {
    on_ranks(2, [&](threads comm) {
      labelled<fp32> model;
      trainer run{model, sgd{}, falling, ring{comm}};
      auto feed = labelled_feed(comm);
      run.resume(runs);
      run.fit(feed, epochs, fault, checkpoint{.folder = runs, .every = every, .keep = keep});
      return 0;
    });
  });
}
const at_step no_fault{-1, {}};

/// The step that a run resumes at, whose weights are those of a run without faults; -1 otherwise.
std::int64_t resumed_step(const std::string& runs) {
  const auto weights_after = [](auto& run, threads comm, double until) {
    auto feed = labelled_feed(comm);
    run.fit(feed, until);
    return std::vector<float>(run.weights().begin(), run.weights().end());
  };
  const auto by_rank = on_ranks(2, [&](threads comm) {
    labelled<fp32> model, other;
    trainer resumed{model, sgd{}, falling, ring{comm}}, whole{other, sgd{}, falling, ring{comm}};
    if (!resumed.resume(runs)) return std::int64_t{-1};
    const std::int64_t step = resumed.steps_taken();
    const bool equal = weights_after(resumed, comm, epochs) == weights_after(whole, comm, epochs);
    return equal ? step : std::int64_t{-1};
  });
  CHECK(by_rank[0] == by_rank[1]);
  return by_rank[0];
}

/// Checks that all that has a final name is whole.
void check_names(const std::string& runs) {
  const run_folder all(runs);
  for (const std::int64_t step : all.steps())
    for (const int rank : {0, 1}) CHECK_NOTHROW(read_whole(all.final_path(step), step, rank, 2));
  for (const auto& entry : fs::directory_iterator(runs)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && !name.ends_with(".partial"))
      CHECK_MESSAGE(fs::exists(entry.path() / "checksums"), name);
  }
}

/// No file may grow beyond this, as on a disk that is full.
void limit_files(rlim_t most) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = std::min(most, limit.rlim_max);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/// f() in a process of its own; returns what it returns, or -1 where it ends in another way.
template <class F>
int in_child(const F& f) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int result = 255;
    try {
      result = f();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(result);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// While it lives this process has no right to write what belongs to root.
class unprivileged {
 public:
  unprivileged() { REQUIRE((!root_ || ::seteuid(65534) == 0)); }
  unprivileged(const unprivileged&) = delete;
  unprivileged& operator=(const unprivileged&) = delete;
  ~unprivileged() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool root_ = ::geteuid() == 0;
};

}  // namespace

TEST_CASE(
    "fault: files that may not grow, as on a full disk, end the run; what was saved is whole") {
  const folder files;
  const std::string runs = files.file("runs");
  const std::string message = error_of_run(runs, {5, [] { limit_files(300); }});
  limit_files(RLIM_INFINITY);
  CHECK(contains_all(
      message, {"cannot write " + runs + "/step-0000000", "File too large", "Free some space"}));
  check_names(runs);
  const std::int64_t newest = run_folder(runs).steps().front();
  CHECK((newest == 4 || newest == 2));  // that of step 4 was perhaps being written
  CHECK(resumed_step(runs) == newest);
  CHECK(error_of_run(runs, no_fault).empty());  // with room again it goes on, and clears up
  CHECK(run_folder(runs).steps().front() == 11);
  for (const auto& entry : fs::directory_iterator(runs))
    CHECK_FALSE(entry.path().string().ends_with(".partial"));
}

TEST_CASE("fault: a disk that is full ends the run; what was saved is whole") {
  const folder files;
  const std::string disk = files.file("disk"), runs = disk + "/runs";
  fs::create_directory(disk);
  constexpr int not_permitted = 77;
  const int result = in_child([&] {
    if (::unshare(CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
      return not_permitted;
    // Leaves room for about two checkpoints, each of at least five pages.
    constexpr std::size_t size = (std::size_t{1} << 20) - 14 * 4096;
    std::ofstream(disk + "/other") << std::string(size, 'x') << std::flush;
    const std::string message = error_of_run(runs, no_fault);
    const run_folder all(runs);
    const std::vector<std::int64_t> steps = all.steps();
    if (!contains_all(message, {"cannot ", runs, "No space left on device"})) return 1;
    if (!contains(message, "Free some space") && !contains(message, "with room for the run"))
      return 2;
    if (steps.empty() || steps.front() >= 11) return 3;
    for (const std::int64_t step : steps)
      for (const int rank : {0, 1}) (void)read_whole(all.final_path(step), step, rank, 2);
    if (resumed_step(runs) != steps.front()) return 4;
    fs::remove(disk + "/other");
    if (!error_of_run(runs, no_fault).empty() || all.steps().front() != 11) return 5;
    return 0;
  });
  if (result == not_permitted)
    skip("no file system can be mounted here: run it as root");
  else
    CHECK(result == 0);
}

TEST_CASE(
    "fault: a folder that cannot be written is an error at the start, and can be resumed from") {
  const folder files;
  const std::string runs = files.file("runs");
  CHECK(error_of_run(runs, no_fault).empty());
  REQUIRE(::chmod(files.file("").c_str(), 0755) == 0);
  REQUIRE(::chmod(runs.c_str(), 0555) == 0);
  std::string message, no_parent;
  {
    const unprivileged user;
    CHECK(resumed_step(runs) == 11);
    message = error_of_run(runs, no_fault);
    no_parent = error_of_run(runs + "/inner", no_fault);
  }
  CHECK(contains_all(message, {"checkpoint: cannot write " + runs + "/lock", "Permission denied",
                               "name a folder that can be written"}));
  CHECK(contains_all(no_parent, {"checkpoint: cannot create " + runs + "/inner",
                                 "Permission denied", "name a folder"}));
  REQUIRE(::chmod(runs.c_str(), 0755) == 0);
}

TEST_CASE(
    "fault: a folder that is made read-only while a run saves ends it; what was saved is whole") {
  const folder files;
  const std::string runs = files.file("runs");
  REQUIRE(::chmod(files.file("").c_str(), 0777) == 0);
  std::string message;
  {
    const unprivileged user;
    message = error_of_run(runs, {7, [&] { ::chmod(runs.c_str(), 0555); }});
  }
  REQUIRE(::chmod(runs.c_str(), 0755) == 0);
  CHECK(contains_all(message, {"checkpoint: cannot ", runs, "Permission denied",
                               "name a folder that all ranks can write"}));
  check_names(runs);
  const std::int64_t newest = run_folder(runs).steps().front();
  CHECK((newest == 4 || newest == 6));
  CHECK(resumed_step(runs) == newest);
}

TEST_CASE("fault: a second job is refused with the first one's name, until that is killed") {
  const folder files;
  const std::string runs = files.file("runs");
  fs::create_directory(runs);
  const std::string ready = files.file("ready");
  const pid_t first = ::fork();
  REQUIRE(first >= 0);
  if (first == 0) {
    const folder_lock lock(runs);
    std::ofstream(ready) << "locked";
    for (;;) ::pause();
  }
  for (int k = 0; k < 30'000 && !fs::exists(ready); ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::string message = error_of_run(runs, no_fault);
  ::kill(first, SIGKILL);
  REQUIRE(::waitpid(first, nullptr, 0) == first);
  CHECK(contains_all(message, {concat("checkpoint: process ", first, " on "), " saves into " + runs,
                               "end it, or name another folder"}));
  CHECK(run_folder(runs).steps().empty());
  CHECK(error_of_run(runs, no_fault).empty());
}

TEST_CASE("fault: a checkpoint of a newer version is refused, and stays as it is") {
  const folder files;
  const std::string runs = files.file("runs");
  CHECK(error_of_run(runs, no_fault, {.steps = 100}).empty());
  const std::string at = run_folder(runs).final_path(11);
  auto json = nlohmann::json::parse(read_text(at + "/checkpoint.json"));
  json = {{"format", json["format"].get<int>() + 1}, {"cordee", "9.9.9"}, {"something", "new"}};
  files.put("runs/step-00000011/checkpoint.json", [&] {
    const std::string text = json.dump();
    return file_bytes(text.begin(), text.end());
  }());
  checksum_table table = parse_checksums(read_text(at + "/checksums"), at);
  table["checkpoint.json"] = checksum_of(at + "/checkpoint.json");
  files.put("runs/step-00000011/checksums", [&] {
    const std::string text = checksum_text(table);
    return file_bytes(text.begin(), text.end());
  }());
  for (int k = 0; k < 2; ++k) {
    CHECK(contains_all(error_of_run(runs, no_fault),
                       {"was written by cordee 9.9.9", "in a format that this version",
                        "use that version or a later one"}));
    CHECK(run_folder(runs).steps() == std::vector<std::int64_t>{11});
  }
}
