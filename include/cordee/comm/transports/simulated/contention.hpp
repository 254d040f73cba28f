// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages that share the links of a machine.
//
//   rate of a message = min over its links of (bandwidth of the link / messages on it)
//
// Equal shares: what a message cannot use of its share, since another of its links is slower, is
// not given to others. A message first takes the latencies of its links, in which it uses none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/comm/transports/simulated/event_queue.hpp>
#include <cordee/comm/transports/simulated/machine.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class contention {
 public:
  contention(machine m, int ranks) : machine_(m), ranks_(ranks) {
    for (const link_parameters speed :
         std::visit([&](const auto& t) { return t.links(ranks); }, machine_))
      links_.push_back({speed, {}});
  }

  /// Effects: a message leaves at that time. Returns its number, which is free again when it has
  /// arrived.
  std::size_t start(int from, int to, std::uint64_t bytes, double at) {
    if (free_.empty()) {
      free_.push_back(flows_.size());
      flows_.emplace_back();
    }
    const std::size_t id = free_.back();
    free_.pop_back();
    flow& f = flows_[id];
    f.left = static_cast<double>(bytes);
    f.path.clear();
    if (from != to) std::visit([&](const auto& t) { t.route(from, to, ranks_, f.path); }, machine_);
    for (const int k : f.path) at += link_of(k).speed.latency;
    push(at, id);
    return id;
  }

  /// When something happens next; infinity if nothing does.
  [[nodiscard]] double next_time() {
    return events_.next_time([this](const event& e) { return is_stale(e); });
  }
  /// Advances to the next time at which something happens; arrived(number, time) for each message
  /// that arrives then. Returns whether there was such a time.
  template <class F>
  bool advance(const F& arrived) {
    const double now = next_time();
    if (now == std::numeric_limits<double>::infinity()) return false;
    happening_.clear();
    done_.clear();
    changed_.clear();
    events_.take(now, happening_);
    for (const event& e : happening_) {
      if (is_stale(e)) continue;
      flow& f = flows_[e.id];
      if (f.active || f.path.empty()) {
        done_.push_back(e.id);
        ++f.version;
      } else {
        f.active = true;
        f.rate = 0;
        f.updated = now;
        for (const int k : f.path) link_of(k).flows.push_back(e.id);
      }
      changed_.insert(changed_.end(), f.path.begin(), f.path.end());
    }
    for (const std::size_t id : done_)
      if (std::exchange(flows_[id].active, false))
        for (const int k : flows_[id].path) std::erase(link_of(k).flows, id);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const int k : changed_)
      for (const std::size_t id : link_of(k).flows) update(id, now);
    for (const std::size_t id : done_) {
      free_.push_back(id);
      arrived(id, now);
    }
    return true;
  }

 private:
  struct flow {
    double left = 0, rate = 0, updated = 0;  // bytes that were left at time `updated`
    std::uint64_t version = 0;               // of its next event
    bool active = false;                     // on its links
    std::vector<int> path{};
  };
  struct link {
    link_parameters speed;
    std::vector<std::size_t> flows;
  };
  using event = event_queue::event;

  link& link_of(int k) { return links_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] bool is_stale(const event& e) const { return flows_[e.id].version != e.version; }
  void push(double time, std::size_t id) { events_.push(time, {id, ++flows_[id].version}); }

  void update(std::size_t id, double now) {
    flow& f = flows_[id];
    double rate = std::numeric_limits<double>::infinity();
    for (const int k : f.path)
      rate =
          std::min(rate, link_of(k).speed.bandwidth / static_cast<double>(link_of(k).flows.size()));
    if (rate == f.rate) return;
    f.left = std::max(0.0, f.left - f.rate * (now - f.updated));
    f.rate = rate;
    f.updated = now;
    push(now + f.left / rate, id);
  }

  const machine machine_;
  const int ranks_;
  std::vector<link> links_;
  std::vector<flow> flows_;
  std::vector<std::size_t> free_, done_;
  std::vector<int> changed_;
  std::vector<event> happening_;
  event_queue events_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
