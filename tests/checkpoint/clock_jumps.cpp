// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// When a run saves does not depend on the wall clock, which may jump.
#include <atomic>
#include <chrono>
#include <ctime>
#include <vector>

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

// The program's own clock_gettime, below, replaces the C library's: while `jumps` points to them,
// these seconds are added to the wall clock and to the steady one.
struct clock_jumps {
  std::atomic<long> wall{0}, steady{0};
};
std::atomic<clock_jumps*> jumps{nullptr};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock_jumps* const by = jumps; by != nullptr && result == 0) {
    if (clock == CLOCK_REALTIME) time->tv_sec += by->wall;
    if (clock == CLOCK_MONOTONIC) time->tv_sec += by->steady;
  }
  return result;
}

namespace {

/// Lets a clock jump after each step.
template <class Jump>
struct jumper {
  clock_jumps* by;
  Jump jump;
  void step(const step_record& r) const { jump(*by, r.info.step + 1); }
};

/// The steps of the checkpoints of a run of 11 steps that saves every hour.
template <class Jump>
std::vector<std::int64_t> saved_steps(const Jump& jump) {
  const folder files;
  clock_jumps by;
  jumps = &by;
  labelled<fp32> model;
  trainer run{model, sgd{}, falling, solo{}};
  auto feed = labelled_feed(self_comm{});
  run.fit(feed, 3, jumper<Jump>{&by, jump},
          checkpoint{.folder = files.file("runs"), .every = {.minutes = 60}, .keep = 100});
  jumps = nullptr;
  return detail::checkpoints::run_folder(files.file("runs")).steps();
}

}  // namespace

TEST_CASE("clock jumps: the test's jumps reach both clocks") {
  clock_jumps by;
  const auto wall = std::chrono::system_clock::now();
  const auto steady = std::chrono::steady_clock::now();
  by.wall = by.steady = 86'400;
  jumps = &by;
  CHECK(std::chrono::system_clock::now() - wall >= std::chrono::hours(24));
  CHECK(std::chrono::steady_clock::now() - steady >= std::chrono::hours(24));
  jumps = nullptr;
}

TEST_CASE("checkpoint: a wall clock that jumps changes nothing; minutes are the steady clock's") {
  using steps = std::vector<std::int64_t>;
  constexpr long year = 31'536'000;
  CHECK(saved_steps([](clock_jumps& by, std::int64_t k) { by.wall = k % 2 == 0 ? -year : year; }) ==
        steps{11});
  // Half an hour at each step but the first.
  CHECK(saved_steps([](clock_jumps& by, std::int64_t k) { by.steady += k > 1 ? 1801 : 0; }) ==
        steps{11, 9, 7, 5, 3});
}
