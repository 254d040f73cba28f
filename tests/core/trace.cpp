// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <cordee/core/trace.hpp>

using namespace cordee::detail::core;

namespace {

/// Writes down what it receives.
struct recorder : trace_sink {
  std::string text;

  recorder() {
    trace_sink::begin = [](trace_sink& s, trace_track track, const char* name, std::int64_t index) {
      static_cast<recorder&>(s).text +=
          std::string(track == trace_track::exchange ? "exchange:" : "") + name +
          (index < 0 ? "" : std::to_string(index)) + "(";
    };
    trace_sink::end = [](trace_sink& s, trace_track) { static_cast<recorder&>(s).text += ")"; };
  }
};

void work() {
  const trace_range step("step", 7);
  { const trace_range inner("forward"); }
  const trace_range exchange("mix", 2, trace_track::exchange);
}

}  // namespace

TEST_CASE("trace: every sink of the thread receives every range, and none after it is removed") {
  recorder one, other;
  work();
  add_trace_sink(one);
  add_trace_sink(one);  // it is there
  add_trace_sink(other);
  work();
  const std::string once = "step7(forward()exchange:mix2())";
  CHECK(one.text == once);
  CHECK(other.text == once);
  remove_trace_sink(one);
  work();
  CHECK(one.text == once);
  CHECK(other.text == once + once);
  remove_trace_sink(one);
  remove_trace_sink(other);
  CHECK(trace_sinks == nullptr);
}

TEST_CASE("trace: a range ends at the sinks where it began; other threads have their own sinks") {
  recorder r;
  {
    const trace_range before("before");
    add_trace_sink(r);
    const trace_range range("range");
    remove_trace_sink(r);
    const trace_range after("after");
  }
  CHECK(r.text == "range()");
  add_trace_sink(r);
  std::thread([] { work(); }).join();
  CHECK(r.text == "range()");
  std::thread([&r] {
    trace_sinks = &r;  // as a courier does
    work();
  }).join();
  CHECK(r.text == "range()step7(forward()exchange:mix2())");
  remove_trace_sink(r);
}
