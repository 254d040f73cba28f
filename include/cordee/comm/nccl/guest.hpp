// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One rank's line to rank 0's host: whoever waits for NCCL listens here too, and hears why in vain.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/failure.hpp>
#include <cordee/comm/launch.hpp>
#include <cordee/comm/nccl/host.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class guest {
 public:
  using clock = std::chrono::steady_clock;

  /// `way`: to the host, which has said welcome.
  guest(standing here, line way)
      : first(here.size),
        here_(std::move(here)),
        way_(std::move(way)),
        left_(static_cast<std::size_t>(here_.size)) {}

  /// A line to the host at one of these names, once it says welcome; one that is over if it does
  /// not within two seconds. What it says instead is thrown.
  [[gnu::cold]] static line arrive(const std::vector<std::string>& names, int port,
                                   const greeting& mine) {
    for (const std::string& name : names) {
      line way = line::to(name, port);
      way.say({frame::hello, mine.rank, as_words(mine)});
      const auto start = clock::now();
      while (!way.over() && clock::now() - start < std::chrono::seconds(2)) {
        const auto f = way.hear();
        if (f && f->what == frame::welcome) return way;
        if (f) throw error(text("rank ", f->rank, ": ", f->words));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return {};
  }

  /// Everybody's words, by rank, once all have said theirs.
  std::vector<std::string> gather(const std::string& mine, std::chrono::milliseconds deadline) {
    {
      const std::scoped_lock lock(mutex_);
      way_.say({frame::gather, here_.rank, mine});
    }
    const auto start = clock::now();
    for (;;) {
      attend();
      if (first.happened()) throw error(text("rank ", here_.rank, " gave up: ", first.cause()));
      {
        const std::scoped_lock lock(mutex_);
        if (!gathered_.empty()) return taken_apart(std::exchange(gathered_, {}));
      }
      if (clock::now() - start > deadline + deadline / 4)  // the host says first who is missing
        throw error(text("rank ", here_.rank, " waited ", deadline.count(),
                         " ms for every rank to begin: one is stuck, or makes no nccl::launch"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The run fails on this rank, unless it has failed before.
  void fail(const std::string& cause, bool stalled = false) {
    const std::scoped_lock lock(mutex_);
    if (first.arise(here_.rank, cause, stalled))
      way_.say({stalled ? frame::stalled : frame::failed, here_.rank, cause});
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    left_[static_cast<std::size_t>(here_.rank)] = true;
    way_.say({frame::left, here_.rank, first.farewell(here_.rank)});
  }

  /// Hears what has come.
  void attend() {
    const std::scoped_lock lock(mutex_);
    while (auto f = way_.hear()) {
      if (f->what == frame::gathered)
        gathered_ = std::move(f->words);
      else if (f->what == frame::left)
        note_farewell(*f);
      else
        first.note(f->rank, f->words, f->what == frame::stalled);
    }
    if (way_.over() && !left_.front())
      first.note(0, "its process has ended without a word: it was killed, or crashed");
  }

  [[nodiscard]] bool has_left(int rank) const {
    const std::scoped_lock lock(mutex_);
    return left_[static_cast<std::size_t>(rank)];
  }
  /// "rank 1, rank 3": who has not left; nothing if all have, or none can be heard any more.
  [[nodiscard, gnu::cold]] std::string absent() const {
    const std::scoped_lock lock(mutex_);
    std::string all;
    for (std::size_t rank = 0; rank < left_.size() && !way_.over(); ++rank)
      if (!left_[rank]) all += text(all.empty() ? "rank " : ", rank ", rank);
    return all;
  }

  failure first;

 private:
  void note_farewell(const frame& f) {
    if (f.rank < 0 || f.rank >= here_.size) return;
    left_[static_cast<std::size_t>(f.rank)] = true;
    first.hear(f.rank, f.words);
  }
  [[nodiscard]] std::vector<std::string> taken_apart(const std::string& words) const {
    std::vector<std::string> all;
    std::string_view rest(words);
    while (rest.size() >= sizeof(std::uint32_t)) {
      const auto size = from_words<std::uint32_t>(rest);
      all.emplace_back(rest.substr(sizeof size, size));
      rest.remove_prefix(std::min(rest.size(), sizeof size + size));
    }
    if (static_cast<int>(all.size()) != here_.size)
      throw error("rank 0 passed on what cannot be read: is it another version of cordee?");
    return all;
  }

  const standing here_;
  mutable std::mutex mutex_;
  line way_;
  std::vector<char> left_;  // by rank
  std::string gathered_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
