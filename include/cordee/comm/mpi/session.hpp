// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process: initialized at the first use unless the program has done so, and then
// finalized by a static destructor, after main.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>

#include <mpi.h>

#include <cordee/comm/launcher_environment.hpp>
#include <cordee/comm/poll_until.hpp>
#include <cordee/comm/wait_timer.hpp>
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

/// Prints the cause and kills every process of the run.
[[noreturn, gnu::cold]] inline void mpi_abort(const std::string& why) {
  std::fprintf(stderr, "cordee: %s\n", why.c_str());
  std::fflush(nullptr);
  // When a rank aborts, launchers drop what they have not read yet of the ranks' output.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
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
  /// disagrees with MPI.
  static rank_assignment start() {
    static const mpi_session session;
    return session.self_;
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

 private:
  // The courier's thread calls MPI as well as the main thread, one call at a time.
  static constexpr int required = MPI_THREAD_SERIALIZED;

  mpi_session() {
    int initialized = 0, provided = required;
    MPI_Initialized(&initialized);
    if (initialized)
      MPI_Query_thread(&provided);
    else
      MPI_Init_thread(nullptr, nullptr, required, &provided);
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
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (owns_mpi_ && !finalized) MPI_Finalize();
  }

  rank_assignment self_;
  bool owns_mpi_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
