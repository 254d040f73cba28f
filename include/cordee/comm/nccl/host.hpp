// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks tell each other beside NCCL, which tells nobody why: at first who and where they are,
// later who failed and why, and who left. A thread of rank 0 passes it on, so that it is heard
// whatever rank 0 is at; a rank whose line ends without a farewell has died.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <poll.h>

#include <cordee/comm/nccl/line.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// What a rank says when it comes.
struct greeting {
  std::uint64_t run;  // its number, so that two runs do not meet
  std::int32_t rank, size;
};
template <class T>
std::string as_words(const T& x) {
  return {reinterpret_cast<const char*>(&x), sizeof x};
}
template <class T>
T from_words(std::string_view words) {
  T x{};
  if (words.size() >= sizeof x) std::memcpy(&x, words.data(), sizeof x);
  return x;
}

/// Rank 0's thread, which ends with this object, whoever is still there.
class host {
 public:
  host(int ranks, int port, std::uint64_t run, std::chrono::milliseconds deadline)
      : run_(run),
        deadline_(deadline),
        door_(port),
        seats_(static_cast<std::size_t>(ranks)),
        thread_([this] { serve(); }) {}
  host(const host&) = delete;
  host& operator=(const host&) = delete;
  ~host() {
    closing_ = true;
    thread_.join();
  }
  [[nodiscard]] int port() const { return door_.port(); }
  [[nodiscard]] std::uint64_t run() const { return run_; }

 private:
  struct seat {
    line way;
    bool taken = false, parted = false;
    std::deque<std::string> said{};  // to everybody
  };
  using clock = std::chrono::steady_clock;

  void serve() {
    const auto late = clock::now() + deadline_;
    for (bool told = false; !closing_;) {
      wait();
      std::erase_if(strangers_, [this](line& stranger) { return received(stranger); });
      for (std::size_t rank = 0; rank < seats_.size(); ++rank) listen(rank);
      const std::string who = absent();
      if (who.empty() || clock::now() < late || std::exchange(told, true)) continue;
      fail({frame::failed, 0,
            text("waited ", deadline_.count(), " ms for ", who, " to come to port ", port(),
                 ": not started, started with another address, or behind a firewall (Slurm's "
                 "variables are also set where srun has started nothing)")});
    }
  }

  void wait() {
    std::vector<pollfd> all{{door_.descriptor(), POLLIN, 0}};
    const auto look_at = [&](const line& l) {
      if (!l.over()) all.push_back({l.descriptor(), POLLIN, 0});
    };
    for (const seat& s : seats_) look_at(s.way);
    for (const line& l : strangers_) look_at(l);
    poll(all.data(), all.size(), 20);
    if (all.front().revents != 0) strangers_.push_back(door_.let_in());
  }

  // Whether that line is no stranger's any more. Who is of another run is not answered.
  bool received(line& stranger) {
    const auto f = stranger.hear();
    if (!f) return stranger.over();
    const auto g = from_words<greeting>(f->words);
    if (f->what != frame::hello || g.run != run_) return true;
    const int ranks = static_cast<int>(seats_.size());
    const bool fits = g.size == ranks && g.rank >= 0 && g.rank < ranks;
    if (fits && !seats_[static_cast<std::size_t>(g.rank)].taken) {
      seat& theirs = seats_[static_cast<std::size_t>(g.rank)];
      theirs.way = std::move(stranger);
      theirs.taken = true;
      theirs.way.say({frame::welcome, 0, ""});
      if (failed_) theirs.way.say(*failed_);  // before it came
      return true;
    }
    const frame refused{frame::failed, g.rank,
                        fits ? text("two processes say that they are rank ", g.rank, " of ", ranks)
                             : text("it says that it is rank ", g.rank, " of ", g.size,
                                    ", but rank 0 says that it is rank 0 of ", ranks,
                                    ": tell every rank the same number of ranks")};
    stranger.say(refused);
    if (!absent().empty()) fail(refused);  // one too many is no matter of those who are there
    return true;
  }

  void listen(std::size_t rank) {
    seat& theirs = seats_[rank];
    if (theirs.way.over()) return;
    while (auto f = theirs.way.hear()) {
      theirs.parted = theirs.parted || f->what == frame::left;
      if (f->what == frame::gather)
        theirs.said.push_back(std::move(f->words));
      else
        tell({f->what, static_cast<int>(rank), f->words});
    }
    if (theirs.way.over() && !theirs.parted)
      fail({frame::failed, static_cast<int>(rank),
            "its process has ended without a word: it was killed, or crashed"});
    pass_round();
  }

  // Everybody's words to everybody, once all have said theirs.
  void pass_round() {
    for (const seat& s : seats_)
      if (s.said.empty()) return;
    std::string all;
    for (seat& s : seats_) {
      all += as_words(static_cast<std::uint32_t>(s.said.front().size())) + s.said.front();
      s.said.pop_front();
    }
    tell({frame::gathered, 0, all});
  }

  // Who is not there cannot leave: nobody shall wait for that.
  void fail(const frame& why) {
    if (!failed_) failed_ = why;
    tell(why);
    for (std::size_t rank = 0; rank < seats_.size(); ++rank)
      if (seats_[rank].way.over()) tell({frame::left, static_cast<int>(rank), ""});
  }
  void tell(const frame& f) {
    for (seat& s : seats_)
      if (!s.way.over()) s.way.say(f);
  }
  [[nodiscard]] std::string absent() const {
    std::string all;
    for (std::size_t rank = 0; rank < seats_.size(); ++rank)
      if (!seats_[rank].taken) all += text(all.empty() ? "rank " : ", rank ", rank);
    return all;
  }

  const std::uint64_t run_;
  const std::chrono::milliseconds deadline_;
  const doorstep door_;
  std::vector<seat> seats_;
  std::vector<line> strangers_;
  std::optional<frame> failed_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
