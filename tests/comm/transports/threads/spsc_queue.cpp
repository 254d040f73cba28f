// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/transports/threads/spsc_queue.hpp>

using namespace cordee::detail::comm;

namespace {

const std::byte* bytes_of(const int& x) { return reinterpret_cast<const std::byte*>(&x); }

int read(const packet& p) {
  int x = 0;
  REQUIRE(p.size == sizeof(x));
  std::memcpy(&x, p.data, sizeof(x));
  return x;
}

}  // namespace

TEST_CASE("spsc_queue: packets are read in order, copies and pointers alike") {
  spsc_queue queue;
  CHECK(queue.front() == nullptr);
  for (int round = 0; round < 3; ++round) {  // new packets, then reused ones
    int pointed = 3;
    completion awaited;
    for (const int x : {1, 2}) queue.push_copy(bytes_of(x), sizeof(x));
    queue.push(bytes_of(pointed), sizeof(pointed), awaited);
    pointed = 4;  // seen through the pointer
    for (const int expected : {1, 2, 4}) {
      REQUIRE(queue.front() != nullptr);
      CHECK(queue.try_claim());
      CHECK(read(*queue.front()) == expected);
      CHECK(queue.front()->awaited == (expected == 4 ? &awaited : nullptr));
      queue.pop();
    }
    CHECK(queue.front() == nullptr);
  }
}

TEST_CASE("spsc_queue: has_room until the consumer falls behind, and again after a pop") {
  spsc_queue queue;
  int pushed = 0;
  for (; queue.has_room() && pushed < 1000; ++pushed)
    queue.push_copy(bytes_of(pushed), sizeof(pushed));
  CHECK(pushed > 4);
  CHECK(pushed < 100);
  queue.pop();
  CHECK(queue.has_room());
  queue.push_copy(bytes_of(pushed), sizeof(pushed));
  CHECK_FALSE(queue.has_room());
  for (int k = 1; k <= pushed; ++k) {
    CHECK(read(*queue.front()) == k);
    queue.pop();
  }
}

TEST_CASE("spsc_queue: a canceled packet cannot be claimed, and a claimed one cannot be canceled") {
  const int x = 7;
  for (const bool cancel_first : {true, false}) {
    spsc_queue queue;
    completion awaited;
    queue.push(bytes_of(x), sizeof(x), awaited);
    if (cancel_first) CHECK(queue.cancel(awaited));
    CHECK(queue.try_claim() != cancel_first);
    if (!cancel_first) CHECK_FALSE(queue.cancel(awaited));
  }
}

TEST_CASE("spsc_queue: a concurrent producer and consumer lose and reorder nothing") {
  constexpr int count = 20'000;
  spsc_queue queue;
  std::thread producer([&] {
    for (int k = 0; k < count; ++k) {
      while (!queue.has_room()) std::this_thread::yield();
      queue.push_copy(bytes_of(k), sizeof(k));
    }
  });
  int wrong = 0;
  for (int k = 0; k < count; ++k) {
    while (queue.front() == nullptr) std::this_thread::yield();
    wrong += read(*queue.front()) != k;
    queue.pop();
  }
  producer.join();
  CHECK(wrong == 0);
  CHECK(queue.front() == nullptr);
}
