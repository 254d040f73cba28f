// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One exchange over MPI, from its first call to its last.
//
// A short message is received by a call that is posted before anything is said, as MPI's own
// collectives do: no look for its size, no copy of it while nobody has asked for it. It goes by
// way of room for the longest short one, so one of another size does no harm. A long message's size
// is looked at before it is received: Open MPI 4 writes one that is larger than the receiver's
// memory beyond its end.
//
// So a tag says whether its message is a short one, and its place among those of the pair on that
// lane: who expects the other kind is not served with a later message.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/mpi/session.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// One message of an exchange.
struct mpi_parcel {
  /// Bytes that every MPI sends without the receiver's doing.
  static constexpr std::size_t longest_short = 4000;

  int peer;
  void* data;
  std::size_t size;
  int tag = 0;

  [[nodiscard]] bool is_short() const { return size <= longest_short; }
};
using mpi_parcels = std::span<mpi_parcel>;

/// The tags of one lane, by peer.
class mpi_tags {
 public:
  explicit mpi_tags(int ranks)
      : heard_(static_cast<std::size_t>(ranks)), said_(static_cast<std::size_t>(ranks)) {}

  void mark(mpi_parcel& p, bool heard) {
    int& place = (heard ? heard_ : said_)[static_cast<std::size_t>(p.peer)];
    p.tag = 2 * place + (p.is_short() ? 1 : 0);
    place = (place + 1) % places;
  }

 private:
  static constexpr int places = 1 << 14;  // MPI promises tags up to 32767
  std::vector<int> heard_, said_;
};

/// Used by who may call MPI.
class mpi_batch {
 public:
  mpi_batch(standing here, int lane, MPI_Comm on, mpi_parcels heard, mpi_parcels said)
      : here_(here), lane_(lane), on_(on), heard_(heard), said_(said), requests_(requests()) {
    requests_.assign(heard.size() + said.size(), MPI_REQUEST_NULL);
  }

  /// Who only speaks waits for the listener, however short it is: nothing else would hold it back.
  void begin(mpi_tags& tags) {
    for (mpi_parcel& p : heard_) tags.mark(p, true);
    for (mpi_parcel& p : said_) tags.mark(p, false);
    room().resize(heard_.size() * mpi_parcel::longest_short);
    for (std::size_t i = 0; i < heard_.size(); ++i)
      if (const mpi_parcel& p = heard_[i]; p.is_short())
        mpi_expects(MPI_Irecv(room_of(i), mpi_parcel::longest_short, MPI_BYTE, p.peer, p.tag, on_,
                              &requests_[i]),
                    "MPI_Irecv");
    const auto send = heard_.empty() ? MPI_Issend : MPI_Isend;
    MPI_Request* r = requests_.data() + heard_.size();
    for (const mpi_parcel& p : said_)
      mpi_expects(send(p.data, static_cast<int>(p.size), MPI_BYTE, p.peer, p.tag, on_, r++),
                  "MPI_Isend");
  }

  /// Receives what has come; whether that was all. Throws where a size is not what is expected.
  bool finished() {
    if (come_ < heard_.size()) take();
    for (; done_ < requests_.size(); ++done_) {
      int done = 0;
      MPI_Status status;
      mpi_expects(MPI_Test(&requests_[done_], &done, &status), "MPI_Test");
      if (!done || (done_ < heard_.size() && done_ >= come_)) return false;
      if (done_ >= heard_.size() || !heard_[done_].is_short()) continue;
      const mpi_parcel& p = heard_[done_];
      compare(p, status);
      if (p.size > 0) std::memcpy(p.data, room_of(done_), p.size);
    }
    return true;
  }

  /// Throws where something has come that is not expected.
  [[gnu::cold]] void look() const {
    for (std::size_t i = 0; i < heard_.size(); ++i) {
      const mpi_parcel& p = heard_[i];
      MPI_Status status;
      int here = 0;
      if (!is_missing(i)) {
        if (!p.is_short() || i < done_) continue;
        MPI_Request_get_status(requests_[i], &here, &status);
        compare(p, status);
      } else if (!misses_before(i)) {
        MPI_Iprobe(p.peer, MPI_ANY_TAG, on_, &here, &status);
        if (here && status.MPI_TAG != p.tag) compare(p, status);
      }
    }
  }

  /// f(peer) of all that something is missing from.
  template <class F>
  void each_missing(const F& f) const {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (is_missing(i)) f(at(i).peer);
  }
  /// "rank 1 to send 16 bytes, rank 2 to take 16 bytes on lane 0"
  [[nodiscard, gnu::cold]] std::string missing() const {
    std::string all;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (is_missing(i))
        all += text(all.empty() ? "" : ", ", "rank ", at(i).peer,
                    i < heard_.size() ? " to send " : " to take ", at(i).size, " bytes");
    return text(all, " on lane ", lane_);
  }

  /// Nothing is written to my memory any more, if this ends so: what is on its way there ends.
  /// What I said may be read as long as it lies there; who would read it fails as well.
  [[nodiscard, gnu::cold]] bool withdrawn() {
    bool all = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (i < heard_.size() && heard_[i].is_short()) MPI_Cancel(&requests_[i]);
      int done = 0;
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
      all = all && (done || i >= heard_.size());
    }
    return all;
  }
  [[gnu::cold]] void forget() {
    for (MPI_Request& r : requests_)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

 private:
  // No memory is asked for once a thread is warm.
  static std::vector<MPI_Request>& requests() {
    thread_local std::vector<MPI_Request> all;
    return all;
  }
  static std::vector<std::byte>& room() {
    thread_local std::vector<std::byte> all;
    return all;
  }
  static std::byte* room_of(std::size_t i) { return room().data() + i * mpi_parcel::longest_short; }

  [[nodiscard]] const mpi_parcel& at(std::size_t i) const {
    return i < heard_.size() ? heard_[i] : said_[i - heard_.size()];
  }

  // Receives long ones in their order.
  void take() {
    for (; come_ < heard_.size(); ++come_) {
      const mpi_parcel& p = heard_[come_];
      if (p.is_short()) continue;
      MPI_Message message;
      MPI_Status status;
      int here = 0;
      mpi_expects(MPI_Improbe(p.peer, p.tag, on_, &here, &message, &status), "MPI_Improbe");
      if (!here) return;
      compare(p, status);
      mpi_expects(
          MPI_Imrecv(p.data, static_cast<int>(p.size), MPI_BYTE, &message, &requests_[come_]),
          "MPI_Imrecv");
    }
  }
  void compare(const mpi_parcel& p, const MPI_Status& status) const {
    int size = 0;
    MPI_Get_count(&status, MPI_BYTE, &size);
    if (size != static_cast<int>(p.size)) refuse(p, size);
  }
  [[noreturn, gnu::cold]] void refuse(const mpi_parcel& p, int size) const {
    throw error(text("rank ", here_.rank, " expects ", p.size, " bytes from rank ", p.peer,
                     " on lane ", lane_, ", which sends ", size,
                     ": the ranks disagree on what they exchange", errand::words()));
  }

  [[nodiscard]] bool is_missing(std::size_t i) const {
    int done = 0;
    MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
    return !done || (i < heard_.size() && i >= come_ && !heard_[i].is_short());
  }
  [[nodiscard]] bool misses_before(std::size_t i) const {
    for (std::size_t k = 0; k < i; ++k)
      if (heard_[k].peer == heard_[i].peer && is_missing(k)) return true;
    return false;
  }

  const standing here_;
  const int lane_;
  const MPI_Comm on_;
  const mpi_parcels heard_, said_;
  std::vector<MPI_Request>& requests_;  // in this order
  std::size_t come_ = 0, done_ = 0;     // long ones before it are on their way; all before it done
};

}  // namespace cordee::inline CORDEE_ABI::detail
