// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/comm/threads/mailbox.hpp>

using namespace cordee::detail;

namespace {

const std::byte* bytes_of(const int& x) { return reinterpret_cast<const std::byte*>(&x); }

int read(const note& n) {
  int x = 0;
  REQUIRE(n.size == sizeof(x));
  std::memcpy(&x, n.data, sizeof(x));
  return x;
}

}  // namespace

TEST_CASE("mailbox: what is said is read in order, copies and pointers alike") {
  mailbox box;
  CHECK(box.next() == nullptr);
  for (int round = 0; round < 3; ++round) {  // on blank notes as on new ones
    int spoken = 3;
    receipt awaited;
    for (const int x : {1, 2}) box.lay_copy(bytes_of(x), sizeof(x));
    box.lay(bytes_of(spoken), sizeof(spoken), awaited);
    spoken = 4;  // a pointer shows what is there now
    for (const int wanted : {1, 2, 4}) {
      REQUIRE(box.next() != nullptr);
      CHECK(box.take());
      CHECK(read(*box.next()) == wanted);
      CHECK(box.next()->awaited == (wanted == 4 ? &awaited : nullptr));
      box.drop();
    }
    CHECK(box.next() == nullptr);
  }
}

TEST_CASE("mailbox: there is room until the reader falls behind, and again when it has read") {
  mailbox box;
  int laid = 0;
  for (; box.has_room() && laid < 1000; ++laid) box.lay_copy(bytes_of(laid), sizeof(laid));
  CHECK(laid > 4);
  CHECK(laid < 100);
  box.drop();
  CHECK(box.has_room());
  box.lay_copy(bytes_of(laid), sizeof(laid));
  CHECK_FALSE(box.has_room());
  for (int k = 1; k <= laid; ++k) {
    CHECK(read(*box.next()) == k);
    box.drop();
  }
}

TEST_CASE("mailbox: what is withdrawn is not taken, and what is taken cannot be withdrawn") {
  const int x = 7;
  for (const bool early : {true, false}) {
    mailbox box;
    receipt awaited;
    box.lay(bytes_of(x), sizeof(x), awaited);
    if (early) CHECK(box.withdraw(awaited));
    CHECK(box.take() != early);
    if (!early) CHECK_FALSE(box.withdraw(awaited));
  }
}

TEST_CASE("mailbox: a writer and a reader at once lose nothing and mix nothing up") {
  constexpr int count = 20'000;
  mailbox box;
  std::thread writer([&] {
    for (int k = 0; k < count; ++k) {
      while (!box.has_room()) std::this_thread::yield();
      box.lay_copy(bytes_of(k), sizeof(k));
    }
  });
  int wrong = 0;
  for (int k = 0; k < count; ++k) {
    while (box.next() == nullptr) std::this_thread::yield();
    wrong += read(*box.next()) != k;
    box.drop();
  }
  writer.join();
  CHECK(wrong == 0);
  CHECK(box.next() == nullptr);
}
