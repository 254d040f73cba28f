// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between ranks beside their data: a rank that fails sends the cause to all; a rank that
// leaves sends its failure report. Every wait for data polls them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <cordee/comm/failure/failure_report.hpp>
#include <cordee/comm/transports/mpi/session.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Guarded by the mutex of mpi_world.
class mpi_control_messages {
 public:
  mpi_control_messages(rank_assignment self, MPI_Comm comm)
      : first_failure(self.size),
        self_(std::move(self)),
        comm_(comm),
        left_(static_cast<std::size_t>(self_.size)) {
    post_receive();
  }

  /// Fails the run on this rank, and sends the cause to all, unless it has failed before.
  void fail(const std::string& cause, bool stalled) {
    if (first_failure.record(self_.rank, cause, stalled))
      send_to_all(stalled ? message::stalled : message::failed, cause);
  }
  void leave() { send_to_all(message::left, first_failure.serialize_report(self_.rank)); }

  /// Receives what has arrived.
  void poll() {
    while (pending_receive_ != MPI_REQUEST_NULL) {
      int arrived = 0;
      MPI_Status status;
      MPI_Test(&pending_receive_, &arrived, &status);
      if (!arrived) return;
      const int peer = status.MPI_SOURCE;
      received_.text[sizeof received_.text - 1] = '\0';  // whatever has been sent
      if (received_.kind == message::left) {
        ++left_count_;
        left_[static_cast<std::size_t>(peer)] = true;
        first_failure.merge_report(peer, received_.text);
      } else {
        first_failure.record(peer, received_.text, received_.kind == message::stalled);
      }
      post_receive();
    }
  }

  [[nodiscard]] bool any_left() const { return left_count_ > 0; }
  [[nodiscard]] bool has_left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }
  /// "rank 1, rank 3": the other ranks that have not left, or a word on this rank's messages to
  /// them that are not delivered; empty when all is done.
  [[nodiscard]] std::string remaining() {
    int delivered = 0;
    MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &delivered, MPI_STATUSES_IGNORE);
    if (left_count_ == self_.size - 1)
      return delivered ? "" : "the delivery of its control messages";
    std::string ranks;
    for (int peer = 0; peer < self_.size; ++peer)
      if (peer != self_.rank && !left_[static_cast<std::size_t>(peer)])
        ranks += concat(ranks.empty() ? "" : ", ", "rank ", peer);
    return ranks;
  }

  failure first_failure;

 private:
  struct message {
    enum kind_of_message : int { failed, stalled, left } kind;
    char text[2000];  // short enough for the eager protocol: sent without the receiver's action
  };

  void send_to_all(message::kind_of_message kind, const std::string& text) {
    message& m = sent_.emplace_back();
    m.kind = kind;
    m.text[text.copy(m.text, sizeof m.text - 1)] = '\0';
    for (int peer = 0; peer < self_.size; ++peer)
      if (peer != self_.rank)
        MPI_Isend(&m, sizeof m, MPI_BYTE, peer, 0, comm_, &sends_.emplace_back());
  }
  void post_receive() {
    received_ = {};  // a shorter message has nothing of the one before
    if (left_count_ < self_.size - 1)
      MPI_Irecv(&received_, sizeof received_, MPI_BYTE, MPI_ANY_SOURCE, 0, comm_,
                &pending_receive_);
  }

  const rank_assignment self_;
  const MPI_Comm comm_;
  std::vector<bool> left_;  // by rank
  int left_count_ = 0;
  message received_{};
  MPI_Request pending_receive_ = MPI_REQUEST_NULL;
  std::deque<message> sent_;
  std::vector<MPI_Request> sends_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
