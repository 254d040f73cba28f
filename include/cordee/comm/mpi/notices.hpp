// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks tell each other beside their messages: who fails says why, who leaves says so and what
// it was waiting for when it heard of a failure. Whoever waits for a message looks here too.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include <cordee/comm/failure.hpp>
#include <cordee/comm/mpi/session.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// All of it under the mutex of mpi_world.
class mpi_notices {
 public:
  using clock = std::chrono::steady_clock;

  mpi_notices(standing here, MPI_Comm channel)
      : first(here.size),
        here_(here),
        channel_(channel),
        silent_from_(static_cast<std::size_t>(here.size), clock::time_point::max()) {
    listen();
  }

  /// The run fails on this rank, unless it has failed before.
  void fail(const std::string& cause, bool stalled) {
    if (first.arise(here_.rank, cause, stalled))
      tell(stalled ? notice::stalled : notice::failed, cause);
  }
  void leave() { tell(notice::left, first.farewell(here_.rank)); }

  /// Hears what has come.
  void attend() {
    while (listening_ != MPI_REQUEST_NULL) {
      int come = 0;
      MPI_Status status;
      MPI_Test(&listening_, &come, &status);
      if (!come) return;
      const int peer = status.MPI_SOURCE;
      if (heard_.what == notice::left) {
        ++leavers_;
        silent_from_[static_cast<std::size_t>(peer)] = clock::now() + under_way;
        first.hear(peer, heard_.words);
      } else {
        first.note(peer, heard_.words, heard_.what == notice::stalled);
      }
      listen();
    }
  }

  [[nodiscard]] bool somebody_left() const { return leavers_ > 0; }
  /// Whether nothing more can come of a rank, for it has left.
  [[nodiscard]] bool is_silent(int rank) const {
    return clock::now() > silent_from_[static_cast<std::size_t>(rank)];
  }
  /// Whether all others have left and know all that this rank had to tell.
  [[nodiscard]] bool over() {
    int told = 0;
    MPI_Testall(static_cast<int>(telling_.size()), telling_.data(), &told, MPI_STATUSES_IGNORE);
    return told && leavers_ == here_.size - 1;
  }
  /// "rank 1, rank 3": who has not left.
  [[nodiscard, gnu::cold]] std::string absent() const {
    std::string all;
    for (int peer = 0; peer < here_.size; ++peer)
      if (peer != here_.rank &&
          silent_from_[static_cast<std::size_t>(peer)] == clock::time_point::max())
        all += text(all.empty() ? "" : ", ", "rank ", peer);
    return all;
  }

  failure first;

 private:
  struct notice {
    enum kind : int { failed, stalled, left } what;
    char words[2000];  // short enough to be sent without the receiver's doing
  };
  /// What was said before its speaker left may be under way for so long.
  static constexpr std::chrono::milliseconds under_way{100};

  void tell(notice::kind what, const std::string& words) {
    notice& n = told_.emplace_back();
    n.what = what;
    n.words[words.copy(n.words, sizeof n.words - 1)] = '\0';
    for (int peer = 0; peer < here_.size; ++peer)
      if (peer != here_.rank)
        MPI_Isend(&n, sizeof n, MPI_BYTE, peer, 0, channel_, &telling_.emplace_back());
  }
  void listen() {
    if (leavers_ < here_.size - 1)
      MPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, MPI_ANY_SOURCE, 0, channel_, &listening_);
  }

  const standing here_;
  const MPI_Comm channel_;
  std::vector<clock::time_point> silent_from_;  // by rank
  int leavers_ = 0;
  notice heard_{};
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::deque<notice> told_;
  std::vector<MPI_Request> telling_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
