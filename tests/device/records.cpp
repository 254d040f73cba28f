// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What `Records` promises, of the emulation that other tests rely on.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/records.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace support;

static_assert(Records<deferred> && !Records<emulated> && !Records<cpu>);

namespace {

template <class F>
std::string refused(const F& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("records: nothing runs while it is recorded, all of it whenever it is replayed") {
  const deferred device;
  const auto s = device.open();
  buffer<int, deferred> x(device, 1);
  int* const at = x.span().data;
  const auto twice = device.record_work(s, [&] {
    for_each(s, 1, [at](std::size_t) { *at = *at + 1; });
    const lent<int, deferred::stream> room(s, 1);
    s.copy(room.data(), at, sizeof(int));
    for_each(s, 1, [at, r = room.data()](std::size_t) { *at += *r; });
  });
  CHECK(on_host(device, span_on<const int, deferred>(x.span()), s)[0] == 0);
  for (const int want : {2, 6, 14}) {
    device.replay(twice, s);
    CHECK(on_host(device, span_on<const int, deferred>(x.span()), s)[0] == want);
  }
}

TEST_CASE("records: what would wait, or read memory that may be gone, is refused meanwhile") {
  const deferred device;
  const auto s = device.open();
  buffer<int, deferred> x(device, 1);
  const int here = 1;
  const auto records = [&](const auto& f) {
    return refused([&] { (void)device.record_work(s, f); });
  };
  CHECK(records([&] { device.finish(s); }).find("waited for") != std::string::npos);
  CHECK(records([&] { device.copy(x.span().data, &here, sizeof(int), s); }).find("pageable") !=
        std::string::npos);
  for_each(s, 1, [at = x.span().data](std::size_t) { *at = 5; });  // and is over then
  CHECK(on_host(device, span_on<const int, deferred>(x.span()), s)[0] == 5);
}
