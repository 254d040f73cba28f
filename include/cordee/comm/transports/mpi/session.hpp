// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process: initialized at the first use unless the program has done so, and then
// finalized by a static destructor, after main.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include <mpi.h>

#include <cordee/comm/failure/poll_until.hpp>
#include <cordee/comm/failure/wait_timer.hpp>
#include <cordee/comm/transports/launcher_environment.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Throws error with MPI's text unless the call succeeded.
inline void mpi_expects(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw error(
      concat("mpi: ", call, ": ", std::string_view(text, static_cast<std::size_t>(length))));
}

/// While it lives: ends this process, and so the run, unless it is destroyed within the deadline.
/// For a call that blocks in a library.
class mpi_watchdog {
 public:
  mpi_watchdog(std::chrono::milliseconds deadline, const char* why)
      : thread_([this, deadline, why] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, deadline, [this] { return done_; })) return;
          std::fprintf(stderr, "cordee: this process waited %lld ms %s\n",
                       static_cast<long long>(deadline.count()), why);
          std::fflush(nullptr);
          std::_Exit(EXIT_FAILURE);
        }) {}
  mpi_watchdog(const mpi_watchdog&) = delete;
  mpi_watchdog& operator=(const mpi_watchdog&) = delete;
  ~mpi_watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Runs that this process takes part in, and whether it is ending them: an MPI_Abort may call the
/// destructors of static objects.
inline std::atomic<int> mpi_runs{0};
inline std::atomic<bool> mpi_aborting{false};

/// Prints the cause and kills every process of the run.
[[noreturn, gnu::cold]] inline void mpi_abort(const std::string& why) {
  std::fprintf(stderr, "cordee: %s\n", why.c_str());
  std::fflush(nullptr);
  // When a rank aborts, launchers drop what they have not read yet of the ranks' output.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  mpi_aborting = true;
  const mpi_watchdog watchdog(std::chrono::seconds(5), "in MPI_Abort for the launcher");
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

/// Blocks until collectives that start a run are complete, or aborts the run at the deadline, which
/// counts from `begun`.
[[gnu::cold]] inline void mpi_await_start(std::span<MPI_Request> requests, int rank,
                                          wait_timer::clock::time_point begun,
                                          std::chrono::milliseconds deadline) {
  const auto complete = [&] {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  };
  const auto remaining = begun + deadline - wait_timer::clock::now();
  if (!poll_until(complete, remaining, std::chrono::microseconds(50)))
    mpi_abort(concat("rank ", rank, " waited ", deadline.count(),
                     " ms for every rank to start: one is stuck, or does not call mpi::launch"));
}

/// A message that was sent and never received, when all ranks have left; empty if there is none.
[[nodiscard, gnu::cold]] inline std::string mpi_unreceived(std::span<const MPI_Comm> contexts,
                                                           int rank) {
  for (std::size_t context = 0; context < contexts.size(); ++context) {
    int pending = 0, bytes = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, contexts[context], &pending, &status);
    if (!pending) continue;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return concat("rank ", status.MPI_SOURCE, " sent ", bytes, " bytes to rank ", rank,
                  " on context ", context,
                  ", which has left the run without receiving them: every rank must make the same "
                  "exchanges");
  }
  return {};
}

class mpi_session {
 public:
  /// This process's rank, with MPI initialized. Ends all processes if the launcher's environment
  /// disagrees with MPI, and this one if MPI_Init does not return within the deadline.
  static rank_assignment start(std::chrono::milliseconds deadline = std::chrono::minutes(2)) {
    static const mpi_session session(deadline);
    return session.self_;
  }
  /// Between the two this process takes part in a run. If it ends then, by std::exit, it ends all
  /// others: MPI_Finalize would wait for them, and they for this rank.
  static void enter_run() { ++mpi_runs; }
  static void leave_run() { --mpi_runs; }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

 private:
  // The courier's thread calls MPI as well as the main thread, one call at a time.
  static constexpr int required = MPI_THREAD_SERIALIZED;

  explicit mpi_session(std::chrono::milliseconds deadline) {
    int initialized = 0, provided = required;
    MPI_Initialized(&initialized);
    if (initialized) {
      MPI_Query_thread(&provided);
    } else {
      const mpi_watchdog watchdog(deadline,
                                  "in MPI_Init for every process: one is stuck, or is no program "
                                  "that uses MPI");
      MPI_Init_thread(nullptr, nullptr, required, &provided);
    }
    owns_mpi_ = !initialized;
    // Errors of calls without a communicator are raised on one of these.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    self_.source = "MPI_COMM_WORLD";
    MPI_Comm_rank(MPI_COMM_WORLD, &self_.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self_.size);
    if (provided < required)
      mpi_abort(
          "mpi: this MPI supports calls from one thread only; ask MPI_Init_thread for at least "
          "MPI_THREAD_SERIALIZED, or use an MPI that provides it");
    try {
      if (const auto launched =
              rank_from_environment([](const char* name) { return std::getenv(name); }))
        expect_same(*launched, self_);
    } catch (const error& e) {
      mpi_abort(e.what());  // there is no control channel yet, and the others wait for this rank
    }
  }
  ~mpi_session() {
    if (mpi_aborting) return;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (mpi_runs > 0 && !finalized)
      mpi_abort(concat("rank ", self_.rank, " ended its process within mpi::launch, by std::exit"));
    if (owns_mpi_ && !finalized) MPI_Finalize();
  }

  rank_assignment self_;
  bool owns_mpi_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
