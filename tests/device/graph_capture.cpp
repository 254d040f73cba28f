// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of GraphCapture, on the emulation that other tests rely on.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/graph_capture.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace cordee::detail::device;
using namespace support;

static_assert(GraphCapture<deferred> && !GraphCapture<emulated> && !GraphCapture<cpu>);

namespace {

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE(
    "graph capture, emulated: captured work does not run during the capture, and runs at every "
    "replay") {
  const deferred device;
  const auto s = device.make_stream();
  buffer<int, deferred> x(device, 1);
  int* const at = x.span().data;
  const auto twice = device.capture(s, [&] {
    for_each(s, 1, [at](std::size_t) { *at = *at + 1; });
    const stream_buffer<int, deferred::stream> temporary(s, 1);
    s.copy(temporary.data(), at, sizeof(int));
    for_each(s, 1, [at, r = temporary.data()](std::size_t) { *at += *r; });
  });
  CHECK(copy_to_host(device, span_on<const int, deferred>(x.span()), s)[0] == 0);
  for (const int want : {2, 6, 14}) {
    device.replay(twice, s);
    CHECK(copy_to_host(device, span_on<const int, deferred>(x.span()), s)[0] == want);
  }
}

TEST_CASE(
    "graph capture, emulated: waiting for the stream and copies of pageable memory are refused") {
  const deferred device;
  const auto s = device.make_stream();
  buffer<int, deferred> x(device, 1);
  const int pageable = 1;
  const auto capture_error = [&](const auto& f) {
    return message_of([&] { (void)device.capture(s, f); });
  };
  CHECK(capture_error([&] { device.finish(s); }).find("waited for") != std::string::npos);
  CHECK(capture_error([&] {
          device.copy(x.span().data, &pageable, sizeof(int), s);
        }).find("pageable") != std::string::npos);
  for_each(s, 1, [at = x.span().data](std::size_t) { *at = 5; });  // the capture has ended
  CHECK(copy_to_host(device, span_on<const int, deferred>(x.span()), s)[0] == 5);
}
