// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

struct mail {
  std::vector<std::byte> bytes;

  explicit mail(std::size_t n, int value = 0)
      : bytes(n, std::byte{static_cast<unsigned char>(value)}) {}
  to<cpu> sent(int peer = 0) { return {peer, {bytes.data(), bytes.size()}}; }
  from<cpu> room(int peer = 0) { return {peer, {bytes.data(), bytes.size()}}; }
};

void exchange(std::initializer_list<to<cpu>> out, std::initializer_list<from<cpu>> in) {
  const std::vector<to<cpu>> sent(out);
  const std::vector<from<cpu>> rooms(in);
  alone{}.exchange<cpu>(sent, rooms, {});
}

}  // namespace

static_assert(!AddsOn<alone, float, cpu> && !Abandons<alone>);
static_assert(solo::offers == agreement::exact && solo::lossless && solo::slots == 0);

TEST_CASE("solo: multiplying by the identity leaves every bit, that of a NaN included") {
  std::vector<float> x{1, -0.0f, std::numeric_limits<float>::quiet_NaN(), 1e-40f};
  const auto before = x;
  const solo one;
  CHECK(one.scratch<float>(1000) == 0);
  one.mix<float, cpu>({nullptr, {x.data(), x.size()}, {}, {}}, {}, {});
  CHECK(std::memcmp(x.data(), before.data(), x.size() * sizeof(float)) == 0);
}

TEST_CASE("solo: it says what it is") {
  CHECK(solo{}.describe() == "solo: one worker, nothing is exchanged");
}

TEST_CASE("alone: rank 0 of 1 on every lane") {
  for (int k = 0; k < lane_count; ++k) {
    CHECK(alone{}.lane(k).rank() == 0);
    CHECK(alone{}.lane(k).size() == 1);
  }
}

TEST_CASE("alone: messages to oneself arrive in the order of the lists, of any length") {
  mail a(5, 1), b(0, 2), c(5, 3), first(5), second(0), third(5);
  exchange({a.sent(), b.sent(), c.sent()}, {first.room(), second.room(), third.room()});
  CHECK(first.bytes == a.bytes);
  CHECK(third.bytes == c.bytes);
  exchange({}, {});
}

TEST_CASE("alone: a message that nobody receives, of another size or to another rank is refused") {
  mail a(5), b(5), longer(6);
  CHECK(contains(complaint([&] { exchange({a.sent()}, {}); }), "must be received"));
  CHECK(contains(complaint([&] { exchange({}, {a.room()}); }), "must be received"));
  CHECK(contains(complaint([&] { exchange({a.sent()}, {longer.room()}); }), "another size"));
  CHECK(contains(complaint([&] { exchange({a.sent(1)}, {b.room()}); }), "no rank but 0"));
  CHECK(contains(complaint([&] { exchange({a.sent()}, {b.room(1)}); }), "no rank but 0"));
}
