// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one mpi::launch know of each other: lanes, who has left, and the first failure.
//
// A lane is a duplicate of MPI_COMM_WORLD. One more carries notices: who fails tells everybody why,
// who leaves says so and what it was at, and whoever waits looks there too.
//
// MPI is called by one thread at a time, under a mutex, by whoever waits, and never to wait:
// MPI_THREAD_SERIALIZED is enough (concurrent calls hang in some MPIs and are slower in others),
// and no thread of the transport's own is needed, for the trainer's courier is one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/errand.hpp>
#include <cordee/comm/machine.hpp>
#include <cordee/comm/mpi/batch.hpp>
#include <cordee/comm/mpi/notices.hpp>
#include <cordee/comm/transport.hpp>

namespace cordee::inline CORDEE_ABI::detail {

class mpi_world {
 public:
  using clock = std::chrono::steady_clock;

  explicit mpi_world(std::chrono::milliseconds deadline)
      : deadline(deadline), here_(mpi_session::begin()) {
    std::array<MPI_Request, lane_count + 1> made;
    for (std::size_t k = 0; k < made.size(); ++k)
      mpi_expects(MPI_Comm_idup(MPI_COMM_WORLD, &lanes_[k], &made[k]), "MPI_Comm_idup");
    const auto start = clock::now();
    mpi_await_beginning(made, rank(), deadline, start);
    const machine_card mine = machine_card::mine();
    std::vector<machine_card> cards(static_cast<std::size_t>(size()));
    MPI_Request told;
    mpi_expects(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, cards.data(), sizeof mine, MPI_BYTE,
                               lanes_.back(), &told),
                "MPI_Iallgather");
    mpi_await_beginning({&told, 1}, rank(), deadline, start);
    local = machine::of(rank(), cards);
    notices_ = std::make_unique<mpi_notices>(here_, lanes_.back());
  }
  mpi_world(const mpi_world&) = delete;
  mpi_world& operator=(const mpi_world&) = delete;
  ~mpi_world() {
    if (first().happened()) return;  // what was under way may be there still: let it lie
    for (MPI_Comm& lane : lanes_) MPI_Comm_free(&lane);
  }

  [[nodiscard]] int rank() const { return here_.rank; }
  [[nodiscard]] int size() const { return here_.size; }
  [[nodiscard]] const failure& first() const { return notices_->first; }

  /// Hears and says all parcels, or throws.
  void exchange(int lane, mpi_parcels heard, mpi_parcels said) {
    mpi_batch b(here_, lane, at(lane), heard, said);
    try {
      transfer(b, lane);
    } catch (const std::exception& e) {
      fail(e.what());  // unless it was a failure that made it throw
      withdraw(b);
      throw;
    }
  }

  /// Whose message comes first on a lane; see AnySource.
  [[gnu::cold]] int next(int lane, std::span<const int> due) {
    const auto start = clock::now();
    for (;;) {
      clock::duration waited;
      {
        const std::scoped_lock lock(mutex_);
        int here = 0;
        MPI_Status status;
        mpi_expects(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, at(lane), &here, &status),
                    "MPI_Iprobe");
        if (here) return status.MPI_SOURCE;
        waited = clock::now() - start;
        if (waited > before_naps) {
          notices_->attend();
          int gone = -1;
          for (const int peer : due) gone = notices_->is_silent(peer) ? peer : gone;
          go_on(
              waited, due.empty() ? clock::duration::max() : deadline, gone,
              [&] { return anybody_of(due, lane); }, true);
        }
      }
      pause(waited);
    }
  }

  /// Tells every rank why the run has failed; the first cause counts.
  void fail(const std::string& cause) {
    const std::scoped_lock lock(mutex_);
    notices_->fail(cause, false);
  }

  /// Leaves, and returns when all have; after a failure, kills those that do not within the grace.
  void leave() {
    {
      const std::scoped_lock lock(mutex_);
      notices_->leave();
    }
    auto calm = clock::now(), said = calm;  // without a failure; without a word of this wait
    for (std::string absent; !everybody_left(absent);) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      const auto now = clock::now();
      if (!first().happened()) calm = now;
      if (now - calm > grace(deadline))
        mpi_abort(text(first().in_full(), "\n", absent, " did not end within ",
                       grace(deadline).count(), " ms after that: MPI_Abort"));
      if (now - said < deadline) continue;
      std::fprintf(stderr, "cordee: rank %d has ended, and waits for %s\n", rank(), absent.c_str());
      said = now;
    }
    if (first().happened()) return;
    if (const std::string why = mpi_unheard(std::span(lanes_).first(lane_count), rank());
        !why.empty())
      notices_->first.note(rank(), why);
  }

  const std::chrono::milliseconds deadline;
  machine local;

 private:
  // Waiters look, yielding, and nap when it takes long: MPI has no bell to sleep by, and whoever
  // computes wants the core.
  static constexpr std::chrono::milliseconds before_naps{1};
  static void pause(clock::duration waited) {
    if (waited < before_naps) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  void transfer(mpi_batch& b, int lane) {
    std::unique_lock lock(mutex_);
    if (first().happened()) throw error(text("rank ", rank(), " gave up: ", first().cause()));
    b.begin(tags_[static_cast<std::size_t>(lane)]);
    for (int look = local.ranks > local.cores ? 1 : 20; look > 0; --look)
      if (b.finished()) return;  // the peer has a core of its own, and may be about to speak
    for (const auto start = clock::now(); !b.finished(); lock.lock()) {
      const auto waited = clock::now() - start;
      if (waited > before_naps) {  // to look for notices takes as long as to look for messages
        b.look();
        notices_->attend();  // who answers waits for requests, and is to say for whose
        go_on(waited, lane == answer_lane ? deadline * 5 / 4 : deadline, who_left(b),
              [&] { return b.missing(); });
      }
      lock.unlock();
      pause(waited);
    }
  }

  // Returns if there is reason to wait on for what missing() says.
  template <class Missing>
  void go_on(clock::duration waited, clock::duration limit, int gone, const Missing& missing,
             bool serves = false) {
    const auto in_ms = [](clock::duration d) { return d / std::chrono::milliseconds(1); };
    std::string why;
    if (first().happened())
      why = text("rank ", rank(), " gave up: ", first().cause());
    else if (gone >= 0)
      why = text("rank ", rank(), " waits for ", missing(), ", but rank ", gone,
                 " has left the run: every rank must make the same exchanges", errand::words());
    else if (waited > limit)
      why =
          text("rank ", rank(), " waited ", in_ms(limit), " ms for ", missing(),
               ": it, or whom it waits for itself, is stuck or slower than mpi::options{.deadline}",
               errand::words());
    else
      return;
    notices_->first.report(
        rank(), text("had waited ", in_ms(waited), " ms for ", missing(), errand::words()),
        serves ? failure::never : std::chrono::milliseconds(in_ms(waited)), errand::reached());
    notices_->fail(why, true);
    throw error(why);
  }

  // A rank that is waited for and has left, or -1.
  [[nodiscard]] int who_left(const mpi_batch& b) const {
    int gone = -1;
    if (notices_->somebody_left())
      b.each_missing([&](int peer) {
        if (notices_->is_silent(peer)) gone = peer;
      });
    return gone;
  }

  // Nothing may be written to my memory once I have thrown.
  [[gnu::cold]] void withdraw(mpi_batch& b) {
    const auto start = clock::now();
    const std::scoped_lock lock(mutex_);
    while (!b.withdrawn() && clock::now() - start < grace(deadline)) {
    }
    b.forget();
  }

  bool everybody_left(std::string& absent) {
    const std::scoped_lock lock(mutex_);
    notices_->attend();
    absent = notices_->absent();
    return notices_->over();
  }
  [[nodiscard]] MPI_Comm at(int lane) const { return lanes_[static_cast<std::size_t>(lane)]; }

  const standing here_;
  std::array<MPI_Comm, lane_count + 1> lanes_;  // the last one carries notices
  std::vector<mpi_tags> tags_{lane_count, mpi_tags(here_.size)};
  std::mutex mutex_;  // whoever holds it may call MPI
  std::unique_ptr<mpi_notices> notices_;
};

}  // namespace cordee::inline CORDEE_ABI::detail
