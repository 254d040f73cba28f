// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranges of a rank's work for profilers. Without a sink a range costs one test of a pointer.
#pragma once

#include <cstdint>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::core {

/// The line of a timeline on which a range is drawn; the ranges of one line are nested.
enum class trace_track { compute, exchange };

/// Receives ranges. It outlives the thread of the rank: an exchange that an exception has
/// interrupted still reports its end.
struct trace_sink {
  void (*begin)(trace_sink&, trace_track, const char* name, std::int64_t index) = nullptr;
  void (*end)(trace_sink&, trace_track) = nullptr;
  trace_sink* next = nullptr;
};

/// The sinks of this thread's ranges, a list. A thread that works for another one takes over the
/// list of that.
inline constinit thread_local trace_sink* trace_sinks = nullptr;

/// Adds a sink to this thread's list, or does nothing if it is there.
inline void add_trace_sink(trace_sink& sink) {
  for (const trace_sink* s = trace_sinks; s != nullptr; s = s->next)
    if (s == &sink) return;
  sink.next = trace_sinks;
  trace_sinks = &sink;
}
inline void remove_trace_sink(const trace_sink& sink) {
  for (trace_sink** s = &trace_sinks; *s != nullptr; s = &(*s)->next)
    if (*s == &sink) {
      *s = sink.next;
      return;
    }
}

/// A range that ends where this object does. `name` is a string literal; `index` counts what has
/// one: steps, buckets.
class trace_range {
 public:
  explicit trace_range(const char* name, std::int64_t index = -1,
                       trace_track track = trace_track::compute)
      : sinks_(trace_sinks), track_(track) {
    for (trace_sink* s = sinks_; s != nullptr; s = s->next) s->begin(*s, track, name, index);
  }
  trace_range(const trace_range&) = delete;
  trace_range& operator=(const trace_range&) = delete;
  ~trace_range() {
    for (trace_sink* s = sinks_; s != nullptr; s = s->next) s->end(*s, track_);
  }

 private:
  trace_sink* sinks_;
  trace_track track_;
};

/// f() within a range. Cold: for what is done once a step.
template <class F>
[[gnu::cold]] decltype(auto) traced(const char* name, std::int64_t index, const F& f) {
  const trace_range range(name, index);
  return f();
}

}  // namespace cordee::inline CORDEE_ABI::detail::core
