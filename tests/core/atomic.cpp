// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/atomic.hpp>
#include <cordee/core/thread.hpp>

using namespace cordee::detail;

TEST_CASE_TEMPLATE("atomic: operations return what std::atomic's do", T, int, std::uint64_t) {
  core::atomic<T> n{5};
  CHECK(n == 5);
  CHECK(n.load(core::memory_order::acquire) == 5);
  CHECK(n.fetch_add(3) == 5);
  CHECK(n.fetch_sub(1, core::memory_order::acq_rel) == 8);
  CHECK(n++ == 7);
  CHECK(++n == 9);
  CHECK(--n == 8);
  CHECK((n = 4) == 4);
  n.store(6, core::memory_order::release);
  CHECK(n.exchange(2) == 6);
  T expected = 3;
  CHECK_FALSE(n.compare_exchange_weak(expected, 1));
  CHECK(expected == 2);
  while (!n.compare_exchange_weak(expected, 1)) CHECK(expected == 2);  // it may fail for no reason
  CHECK(n == 1);
}

TEST_CASE("atomic: a bool, a pointer, and their initial values") {
  core::atomic<bool> flag;
  CHECK_FALSE(flag);
  CHECK_FALSE(flag.exchange(true));
  CHECK(flag.load());
  int number = 0;
  core::atomic<int*> pointer;
  CHECK(pointer == nullptr);
  pointer = &number;
  CHECK(pointer.load() == &number);
}

namespace {

/// Two threads add to `sum`, and pass `plain` to one another.
struct two_adders {
  static constexpr int times = 20'000;
  void add() {
    for (int k = 0; k < times; ++k) {
      ++sum;
      while (turn.load(core::memory_order::acquire) != 1) core::yield();
      ++plain;
      turn.store(0, core::memory_order::release);
    }
  }
  core::atomic<int> sum{0}, turn{0};
  int plain = 0;
};

}  // namespace

TEST_CASE("atomic: no addition is lost, and a release is seen with what precedes it") {
  two_adders both;
  core::thread other = core::start_thread<&two_adders::add>(both);
  for (int k = 0; k < two_adders::times; ++k) {
    both.sum.fetch_add(1, core::memory_order::relaxed);
    while (both.turn.load(core::memory_order::acquire) != 0) core::yield();
    ++both.plain;
    both.turn.store(1, core::memory_order::release);
  }
  other.join();
  CHECK(both.sum == 2 * two_adders::times);
  CHECK(both.plain == 2 * two_adders::times);
}
