// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Events of a simulation in the order of their times, and those of one time by their numbers.
//
// Ranks that do the same thing make events of one time one after the other: these share an entry of
// the heap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class event_queue {
 public:
  struct event {
    std::size_t id;
    std::uint64_t version;
  };

  void push(double time, event e) {
    if (last_ == none || last_time_ != time) {
      if (free_.empty()) {
        free_.push_back(groups_.size());
        groups_.emplace_back();
      }
      last_ = free_.back();
      free_.pop_back();
      last_time_ = time;
      heap_.push({time, last_});
    }
    groups_[last_].push_back(e);
  }

  /// The least time of an event for which is_stale is false; infinity if there is none. Effects:
  /// removes events for which it is true.
  template <class F>
  [[nodiscard]] double next_time(const F& is_stale) {
    for (; !heap_.empty(); remove_first()) {
      std::vector<event>& first = groups_[heap_.top().group];
      while (!first.empty() && is_stale(first.back())) first.pop_back();
      if (!first.empty()) return heap_.top().time;
    }
    return std::numeric_limits<double>::infinity();
  }
  /// Effects: removes the events of that time, which is the least one, and appends them.
  void take(double time, std::vector<event>& events) {
    for (; !heap_.empty() && heap_.top().time == time; remove_first()) {
      const std::vector<event>& first = groups_[heap_.top().group];
      events.insert(events.end(), first.begin(), first.end());
    }
    std::ranges::sort(events, {}, &event::id);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct entry {
    double time;
    std::size_t group;
    /// std::priority_queue has the largest on top.
    bool operator<(const entry& other) const { return time > other.time; }
  };

  void remove_first() {
    const std::size_t group = heap_.top().group;
    heap_.pop();
    groups_[group].clear();
    free_.push_back(group);
    if (last_ == group) last_ = none;
  }

  std::priority_queue<entry> heap_;
  std::vector<std::vector<event>> groups_;  // of events that were pushed in a row with one time
  std::vector<std::size_t> free_;
  std::size_t last_ = none;  // the group of the last event
  double last_time_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
