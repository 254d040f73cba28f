// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/testing/counted.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

// A link like any other, that can neither add nor average by itself.
static_assert(TransportOn<counted<threads>, cpu>);
static_assert(AddsOn<threads, float, cpu> && !AddsOn<counted<threads>, float, cpu>);
static_assert(NativeMeanOn<threads, float, cpu> && !NativeMeanOn<counted<threads>, float, cpu>);
static_assert(counted<threads>::blocks_host == threads::blocks_host);

namespace {

// One message of `bytes` to the next rank, one from the rank before; what was heard.
template <class Link>
std::byte tell_next(const Link& link, std::size_t bytes) {
  std::vector<std::byte> mine(bytes, static_cast<std::byte>(link.rank())), theirs(bytes);
  const int p = link.size();
  const std::array out{to<cpu>{(link.rank() + 1) % p, {mine.data(), bytes}}};
  const std::array in{from<cpu>{(link.rank() + p - 1) % p, {theirs.data(), bytes}}};
  link.exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
  return theirs.back();
}

}  // namespace

TEST_CASE("counted: what a rank sends is counted, on every lane, and arrives") {
  for (const int ranks : {2, 3, 5})
    for (const traffic& t : on_ranks(ranks, [&](threads link) {
           traffic sent;
           const counted over{link, &sent};
           CHECK((over.rank() == link.rank() && over.size() == ranks));
           const auto before = static_cast<std::byte>((link.rank() + ranks - 1) % ranks);
           CHECK(tell_next(over, 100) == before);
           CHECK(tell_next(over.lane(1), 23) == before);
           return sent;
         })) {
      CHECK(t.messages == 2);
      CHECK(t.bytes == 123);
    }
}

TEST_CASE("counted: who only hears sends nothing") {
  const auto sent = on_ranks(2, [](threads link) {
    traffic t;
    std::array<std::byte, 8> x{};
    const std::array out{to<cpu>{1, {x.data(), x.size()}}};
    const std::array in{from<cpu>{0, {x.data(), x.size()}}};
    const bool tells = link.rank() == 0;
    counted{link, &t}.exchange(std::span<const to<cpu>>(out).first(tells ? 1 : 0),
                               std::span<const from<cpu>>(in).first(tells ? 0 : 1), cpu::stream{});
    return t;
  });
  CHECK((sent[0].messages == 1 && sent[0].bytes == 8));
  CHECK((sent[1].messages == 0 && sent[1].bytes == 0));
}

TEST_CASE("counted: lanes that are used side by side lose no count") {
  for (const traffic& t : on_ranks(2, [](threads link) {
         traffic sent;
         const counted over{link, &sent};
         std::thread beside([lane = over.lane(1)] {
           for (int k = 0; k < 500; ++k) tell_next(lane, 3);
         });
         for (int k = 0; k < 500; ++k) tell_next(over, 5);
         beside.join();
         return sent;
       })) {
    CHECK(t.messages == 1000);
    CHECK(t.bytes == 500 * 8);
  }
}

TEST_CASE("counted: what abandons the link below is its cause") {
  const std::string said = complaint([] {
    on_ranks(2, [](threads link) {
      traffic sent;
      const counted over{link, &sent};
      if (link.rank() == 1)
        over.abandon("enough of this");
      else
        tell_next(over, 4);
      return 0;
    });
  });
  CHECK(contains(said, "enough of this"));
}
