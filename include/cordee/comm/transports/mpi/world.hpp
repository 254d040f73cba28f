// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one mpi::launch share: contexts, control messages and the first failure.
//
// A context is a duplicate of MPI_COMM_WORLD. One more carries control messages, which every wait
// polls.
//
// MPI is called by one thread at a time, under a mutex, by the threads that wait, and never with a
// blocking call: MPI_THREAD_SERIALIZED is enough (concurrent calls hang in some MPIs and are slower
// in others), and the transport needs no progress thread, for the trainer's courier is one.
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

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/failure/wait_timer.hpp>
#include <cordee/comm/transports/host_info.hpp>
#include <cordee/comm/transports/mpi/control_messages.hpp>
#include <cordee/comm/transports/mpi/transfers.hpp>
#include <cordee/comm/transports/transport.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

class mpi_world {
 public:
  explicit mpi_world(std::chrono::milliseconds wait_limit)
      : deadline(wait_limit), self_(mpi_session::start(wait_limit)) {
    const auto begun = wait_timer::clock::now();
    std::array<MPI_Request, context_count + 1> duplicated;
    for (std::size_t k = 0; k < duplicated.size(); ++k)
      mpi_expects(MPI_Comm_idup(MPI_COMM_WORLD, &contexts_[k], &duplicated[k]), "MPI_Comm_idup");
    mpi_await_start(duplicated, rank(), begun, deadline);
    const host_info host = host_info::local();
    std::vector<host_info> hosts(static_cast<std::size_t>(size()));
    MPI_Request gathered;
    mpi_expects(MPI_Iallgather(&host, sizeof host, MPI_BYTE, hosts.data(), sizeof host, MPI_BYTE,
                               contexts_.back(), &gathered),
                "MPI_Iallgather");
    mpi_await_start({&gathered, 1}, rank(), begun, deadline);
    node = node_info::of(rank(), hosts);
    control_ = std::make_unique<mpi_control_messages>(self_, contexts_.back());
    mpi_session::enter_run();
  }
  mpi_world(const mpi_world&) = delete;
  mpi_world& operator=(const mpi_world&) = delete;
  ~mpi_world() {
    if (first_failure().happened()) return;  // messages may be in flight: leaks the communicators
    for (MPI_Comm& context : contexts_) MPI_Comm_free(&context);
  }

  [[nodiscard]] int rank() const { return self_.rank; }
  [[nodiscard]] int size() const { return self_.size; }
  [[nodiscard]] const failure& first_failure() const { return control_->first_failure; }
  [[nodiscard]] bool has_left(int rank) {
    const std::scoped_lock lock(mutex_);
    return control_->has_left(rank);
  }

  /// Blocks until all transfers are complete, or throws.
  void exchange(int context, mpi_transfers receives, mpi_transfers sends) {
    mpi_batch batch(self_, context, comm_of(context), receives, sends);
    try {
      transfer(batch, context);
    } catch (const std::exception& e) {
      fail(e.what());  // no effect where the exception reports the run's failure
      cancel(batch);
      throw;
    }
  }

  /// The sender of the first pending message on a context; see AnySource.
  [[gnu::cold]] int probe_any(int context, std::span<const int> expected) {
    probe_wait wait{*this, context, expected};
    wait_limits limits = limits_of(context);
    if (expected.empty()) limits.deadline = wait_limits::duration::max();
    limits.waits_idle = true;
    await_peers(wait, *control_, mutex_, limits);
    return wait.sender;
  }

  /// Sends the cause of the run's failure to every rank; the first cause counts.
  void fail(const std::string& cause) {
    const std::scoped_lock lock(mutex_);
    control_->fail(cause, false);
  }

  /// Leaves, and returns when all have left; after a failure, kills those that do not leave within
  /// the grace period. Throws error for a message to this rank that was never received.
  void leave() {
    {
      const std::scoped_lock lock(mutex_);
      control_->leave();
    }
    const auto remaining = [&] {
      const std::scoped_lock lock(mutex_);
      control_->poll();
      return control_->remaining();
    };
    if (const std::string ranks = await_leaving(rank(), deadline, first_failure(), remaining);
        !ranks.empty())
      abort(concat(first_failure().describe(), "\n", ranks, " did not end within ",
                   grace_period(deadline).count(), " ms after that: MPI_Abort"));
    mpi_session::leave_run();
    if (first_failure().happened()) return;
    if (const std::string why = mpi_unreceived(std::span(contexts_).first(context_count), rank());
        !why.empty()) {
      control_->first_failure.record(rank(), why);
      throw error(first_failure().describe());  // no other rank has this failure
    }
  }

  const std::chrono::milliseconds deadline;
  node_info node;

 private:
  struct exchange_wait {
    mpi_world& world;
    mpi_batch& batch;

    bool ready() const { return batch.progress(); }
    static constexpr bool started() { return true; }
    void inspect() const { batch.check_pending(); }
    [[nodiscard]] int left_peer() const {
      return world.control_->any_left() ? left_peer_among(*world.control_, batch) : -1;
    }
    [[nodiscard]] std::string describe() const { return batch.describe_pending(); }
  };
  struct probe_wait {
    mpi_world& world;
    int context;
    std::span<const int> expected;
    int sender = -1;

    bool ready() {
      int pending = 0;
      MPI_Status status;
      mpi_expects(
          MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world.comm_of(context), &pending, &status),
          "MPI_Iprobe");
      if (pending) sender = status.MPI_SOURCE;
      return pending != 0;
    }
    static constexpr bool started() { return true; }
    static void inspect() {}
    [[nodiscard]] int left_peer() const { return left_peer_of(*world.control_, expected); }
    [[nodiscard]] std::string describe() const { return describe_sources(expected, context); }
  };

  void transfer(mpi_batch& batch, int context) {
    {
      const std::scoped_lock lock(mutex_);
      if (first_failure().happened())
        throw error(concat("rank ", rank(), " aborted: ", first_failure().cause()));
      batch.start(tags_[static_cast<std::size_t>(context)]);
      // A peer with a core of its own is likely to send within a few polls.
      for (int polls = node.local_size > node.cores ? 1 : 20; polls > 0; --polls)
        if (batch.progress()) return;
    }
    exchange_wait wait{*this, batch};
    await_peers(wait, *control_, mutex_, limits_of(context));
  }

  // A server that owes a reply waits for requests, and its own error names the rank that it waits
  // for: workers wait a little longer.
  [[nodiscard]] wait_limits limits_of(int context) const {
    return {.rank = rank(),
            .deadline = context == reply_context ? deadline * 5 / 4 : deadline,
            .option = "mpi::options{.deadline}",
            .control_after = std::chrono::milliseconds(1),  // a poll costs as much as one for data
            .inspect_every = {},
            .left_grace = std::chrono::milliseconds(100)};
  }

  // One rank aborts, the lowest one that has left; the others only if it has not ended them two
  // seconds later. With several aborts at a time Open MPI's mpirun may crash or hang.
  [[noreturn, gnu::cold]] void abort(const std::string& why) {
    int lowest = 0;
    while (lowest < rank() && !control_->has_left(lowest)) ++lowest;
    if (lowest < rank()) std::this_thread::sleep_for(std::chrono::seconds(2));
    mpi_abort(why);
  }

  // Nothing may be written to the caller's memory once exchange has thrown.
  [[gnu::cold]] void cancel(mpi_batch& batch) {
    const std::scoped_lock lock(mutex_);
    poll_until([&] { return batch.cancel(); }, grace_period(deadline), {});
    batch.free_requests();
  }

  [[nodiscard]] MPI_Comm comm_of(int context) const {
    return contexts_[static_cast<std::size_t>(context)];
  }

  const rank_assignment self_;
  std::array<MPI_Comm, context_count + 1> contexts_;  // the last one carries control messages
  std::vector<mpi_tags> tags_{context_count, mpi_tags(self_.size)};
  std::mutex mutex_;  // guards MPI
  std::unique_ptr<mpi_control_messages> control_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
