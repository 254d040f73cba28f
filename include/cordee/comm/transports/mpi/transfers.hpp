// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One exchange over MPI, from its first call to its last.
//
// The receives of short messages are posted before anything is sent, as MPI's own collectives do:
// no probe for the size, no unexpected-message copy. They go into a buffer for the longest short
// message, so one of another size does no harm. A long message's size is probed before it is
// received: Open MPI 4 writes one that is larger than the receive buffer beyond its end.
//
// So a tag has whether its message is a short one, and its number among those of the pair on that
// context: a receiver that expects the other kind is not matched with a later message.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/mpi/session.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// One message of an exchange.
struct mpi_transfer {
  /// Bytes that every MPI sends eagerly, without the receiver's action.
  static constexpr std::size_t longest_short = 4000;

  int peer;
  void* data;
  std::size_t size;
  int tag = 0;
  bool posted = false;  // of a receive: MPI has it

  [[nodiscard]] bool is_short() const { return size <= longest_short; }
};
using mpi_transfers = std::span<mpi_transfer>;

/// The next tags of one context, by peer and direction.
class mpi_tags {
 public:
  explicit mpi_tags(int ranks)
      : receives_(static_cast<std::size_t>(ranks)), sends_(static_cast<std::size_t>(ranks)) {}

  void assign_receive(mpi_transfer& t) { assign(t, receives_); }
  void assign_send(mpi_transfer& t) { assign(t, sends_); }

 private:
  static void assign(mpi_transfer& t, std::vector<int>& numbers) {
    int& number = numbers[static_cast<std::size_t>(t.peer)];
    t.tag = 2 * number + (t.is_short() ? 1 : 0);
    number = (number + 1) % numbers_per_peer;
  }

  static constexpr int numbers_per_peer = 1 << 14;  // MPI guarantees tags up to 32767
  std::vector<int> receives_, sends_;
};

/// Requires that the caller may call MPI.
class mpi_batch {
 public:
  mpi_batch(rank_assignment self, int context, MPI_Comm comm, mpi_transfers receives,
            mpi_transfers sends)
      : self_(std::move(self)),
        context_(context),
        comm_(comm),
        receives_(receives),
        sends_(sends),
        requests_(thread_requests()) {
    requests_.assign(receives.size() + sends.size(), MPI_REQUEST_NULL);
  }

  /// Sends without a receive in the same batch are synchronous; otherwise a fast sender could run
  /// ahead without bound.
  void start(mpi_tags& tags) {
    for (mpi_transfer& t : receives_) tags.assign_receive(t);
    for (mpi_transfer& t : sends_) tags.assign_send(t);
    short_buffers().resize(receives_.size() * mpi_transfer::longest_short);
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      mpi_transfer& t = receives_[i];
      if (!t.is_short()) continue;
      mpi_expects(MPI_Irecv(short_buffer(i), mpi_transfer::longest_short, MPI_BYTE, t.peer, t.tag,
                            comm_, &requests_[i]),
                  "MPI_Irecv");
      t.posted = true;
      ++posted_;
    }
    const auto send = receives_.empty() ? MPI_Issend : MPI_Isend;
    MPI_Request* r = requests_.data() + receives_.size();
    for (const mpi_transfer& t : sends_)
      mpi_expects(send(t.data, static_cast<int>(t.size), MPI_BYTE, t.peer, t.tag, comm_, r++),
                  "MPI_Isend");
  }

  /// Receives what has arrived. Returns whether the batch is complete. Throws where a size is not
  /// what is expected.
  bool progress() {
    if (posted_ < receives_.size()) match_long();
    for (; completed_ < requests_.size(); ++completed_) {
      int done = 0;
      MPI_Status status;
      mpi_expects(MPI_Test(&requests_[completed_], &done, &status), "MPI_Test");
      if (!done || is_unposted(completed_)) return false;
      if (completed_ >= receives_.size() || !receives_[completed_].is_short()) continue;
      const mpi_transfer& t = receives_[completed_];
      check_size(t, status);
      if (t.size > 0) std::memcpy(t.data, short_buffer(completed_), t.size);
    }
    return true;
  }

  /// Throws where a message is pending that is not the expected one.
  [[gnu::cold]] void check_pending() const {
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      const mpi_transfer& t = receives_[i];
      MPI_Status status;
      int arrived = 0;
      if (!is_pending(i)) {
        if (!t.is_short() || i < completed_) continue;
        MPI_Request_get_status(requests_[i], &arrived, &status);
        check_size(t, status);
      } else if (is_next_of_peer(i)) {
        MPI_Iprobe(t.peer, MPI_ANY_TAG, comm_, &arrived, &status);
        if (arrived && status.MPI_TAG != t.tag) check_size(t, status);
      }
    }
  }

  /// f(peer) for every pending transfer.
  template <class F>
  void for_pending_peers(const F& f) const {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (is_pending(i)) f(transfer(i).peer);
  }
  /// "rank 1 to send 16 bytes, rank 2 to receive 16 bytes on context 0"
  [[nodiscard, gnu::cold]] std::string describe_pending() const {
    std::string text;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (is_pending(i))
        text +=
            concat(text.empty() ? "" : ", ", "rank ", transfer(i).peer,
                   i < receives_.size() ? " to send " : " to receive ", transfer(i).size, " bytes");
    return concat(text, " on context ", context_);
  }

  /// Cancels posted receives. Returns whether no receive writes to the caller's memory any more;
  /// false while one is in flight. Send buffers may still be read: their receivers fail as well.
  [[nodiscard, gnu::cold]] bool cancel() {
    bool quiet = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (i < receives_.size() && receives_[i].is_short()) MPI_Cancel(&requests_[i]);
      int done = 0;
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
      quiet = quiet && (done || i >= receives_.size());
    }
    return quiet;
  }
  [[gnu::cold]] void free_requests() {
    for (MPI_Request& r : requests_)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

 private:
  // Per thread, so that only a thread's first batches allocate.
  static std::vector<MPI_Request>& thread_requests() {
    thread_local std::vector<MPI_Request> requests;
    return requests;
  }
  static std::vector<std::byte>& short_buffers() {
    thread_local std::vector<std::byte> buffers;  // (receives, longest_short)
    return buffers;
  }
  static std::byte* short_buffer(std::size_t i) {
    return short_buffers().data() + i * mpi_transfer::longest_short;
  }

  [[nodiscard]] const mpi_transfer& transfer(std::size_t i) const {
    return i < receives_.size() ? receives_[i] : sends_[i - receives_.size()];
  }

  // Receives the long messages that have arrived, in any order: behind one that is late there may
  // be one of a rank that has left since.
  void match_long() {
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      if (!is_unposted(i)) continue;
      mpi_transfer& t = receives_[i];
      MPI_Message message;
      MPI_Status status;
      int arrived = 0;
      mpi_expects(MPI_Improbe(t.peer, t.tag, comm_, &arrived, &message, &status), "MPI_Improbe");
      if (!arrived) continue;
      check_size(t, status);
      mpi_expects(MPI_Imrecv(t.data, static_cast<int>(t.size), MPI_BYTE, &message, &requests_[i]),
                  "MPI_Imrecv");
      t.posted = true;
      ++posted_;
    }
  }
  void check_size(const mpi_transfer& t, const MPI_Status& status) const {
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    if (size != static_cast<int>(t.size)) throw_mismatch(t, size);
  }
  [[noreturn, gnu::cold]] void throw_mismatch(const mpi_transfer& t, int size) const {
    throw error(concat("rank ", self_.rank, " expects ", t.size, " bytes from rank ", t.peer,
                       " on context ", context_, ", which sends ", size,
                       ": the ranks disagree on what they exchange", error_context::suffix()));
  }

  [[nodiscard]] bool is_unposted(std::size_t i) const {
    return i < receives_.size() && !receives_[i].posted;
  }
  [[nodiscard]] bool is_pending(std::size_t i) const {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    return !done || is_unposted(i);
  }
  [[nodiscard]] bool is_next_of_peer(std::size_t i) const {
    for (std::size_t k = 0; k < i; ++k)
      if (receives_[k].peer == receives_[i].peer && is_pending(k)) return false;
    return true;
  }

  const rank_assignment self_;
  const int context_;
  const MPI_Comm comm_;
  const mpi_transfers receives_, sends_;
  std::vector<MPI_Request>& requests_;  // receives, then sends
  std::size_t posted_ = 0;              // receives
  std::size_t completed_ = 0;           // the requests before it are complete
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
