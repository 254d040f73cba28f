// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/clock.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#if defined(_GLIBCXX_THREAD) || defined(_GLIBCXX_CONDITION_VARIABLE) || \
    defined(_GLIBCXX_MEMORY) || defined(_GLIBCXX_MUTEX) || defined(_GLIBCXX_ATOMIC)
#define HEAVY_HEADER_INCLUDED true
#else
#define HEAVY_HEADER_INCLUDED false
#endif

#include <thread>

#include <doctest/doctest.h>

using namespace cordee::detail;

namespace {

struct worker {
  void work() { id = std::this_thread::get_id(); }
  std::thread::id id{};
};

}  // namespace

TEST_CASE("start: a member function runs on its object in another thread") {
  worker first, second;
  core::thread a = core::start_thread<&worker::work>(first),
               b = core::start_thread<&worker::work>(second);
  CHECK(a.joinable());
  core::thread moved = std::move(a);
  CHECK_FALSE(a.joinable());
  moved.join();
  b.join();
  CHECK_FALSE(b.joinable());
  CHECK(first.id != std::thread::id());
  CHECK(first.id != std::this_thread::get_id());
  CHECK(second.id != std::this_thread::get_id());
}

TEST_CASE(
    "thread: a trainer, over threads too, needs none of <thread>, <mutex>, <atomic>, <memory>") {
  CHECK_FALSE(HEAVY_HEADER_INCLUDED);
}

TEST_CASE("core_count: the cores that the thread may run on") {
  const int cores = core::core_count();
  CHECK(cores >= 1);
  CHECK(cores <= static_cast<int>(std::thread::hardware_concurrency()));
#if defined(CPU_COUNT)
  int bound = 0;
  std::thread([&] {
    cpu_set_t first, all;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CHECK(cores == CPU_COUNT(&all));
    CPU_ZERO(&first);
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    CPU_SET(core, &first);
    REQUIRE(sched_setaffinity(0, sizeof first, &first) == 0);
    bound = core::core_count();
  }).join();
  CHECK(bound == 1);
#endif
}

TEST_CASE("sleep_for: it sleeps at least so long, and not for a negative time") {
  const auto start = std::chrono::steady_clock::now();
  core::sleep_for(std::chrono::seconds(-1));
  core::sleep_for(std::chrono::microseconds(1'500));
  const auto time = std::chrono::steady_clock::now() - start;
  CHECK(time >= std::chrono::microseconds(1'500));
  CHECK(time < std::chrono::milliseconds(900));
  const timespec parts = core::timespec_of(2'000'000'003);
  CHECK(parts.tv_sec == 2);
  CHECK(parts.tv_nsec == 3);
}
