// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <future>
#include <stdexcept>

#include <doctest/doctest.h>

#include <cordee/checkpoint/background_job.hpp>

#include "tests/support/ranks.hpp"

using cordee::detail::checkpoints::background_job;

TEST_CASE("background_job: runs beside its caller, one job after another") {
  std::promise<void> go_on;
  int value = 0;
  background_job job;
  CHECK(job.finished());
  job.start([&] {
    go_on.get_future().wait();
    value = 1;
  });
  CHECK_FALSE(job.finished());
  CHECK_FALSE(job.finished_within(std::chrono::milliseconds(1)));
  go_on.set_value();
  job.start([&] { value += 10; });  // waits for the first one
  CHECK(job.finished_within(std::chrono::seconds(30)));
  job.wait();
  CHECK(job.finished());
  CHECK(value == 11);
  job.wait();  // nothing to wait for
}

TEST_CASE("background_job: wait, and the next start, throw what the job threw, once") {
  background_job job;
  job.start([] { throw std::runtime_error("no room"); });
  CHECK(support::error_message([&] { job.wait(); }) == "no room");
  job.wait();
  job.start([] { throw std::runtime_error("again"); });
  CHECK(support::error_message([&] { job.start([] {}); }) == "again");
  job.wait();
}
