// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// MPI of this process: begun where it is first needed unless the program has begun it, and then
// ended as the program ends, when main has said what it had to.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>

#include <mpi.h>

#include <cordee/comm/launch.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

/// Throws what MPI says of a call that failed.
inline void mpi_expects(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, words, &length);
  throw error(text("mpi: ", call, ": ", std::string_view(words, static_cast<std::size_t>(length))));
}

/// The last way to end a run: this text, and every process is killed.
[[noreturn, gnu::cold]] inline void mpi_abort(const std::string& why) {
  std::fprintf(stderr, "cordee: %s\n", why.c_str());
  std::fflush(nullptr);
  // Whoever passes on what ranks print drops what it has not read yet when one of them aborts.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

/// Until all is done that every rank does at first.
[[gnu::cold]] inline void mpi_await_beginning(std::span<MPI_Request> all, int rank,
                                              std::chrono::milliseconds deadline,
                                              std::chrono::steady_clock::time_point start) {
  for (int done = 0; !done; std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    MPI_Testall(static_cast<int>(all.size()), all.data(), &done, MPI_STATUSES_IGNORE);
    if (!done && std::chrono::steady_clock::now() - start > deadline)
      mpi_abort(text("rank ", rank, " waited ", deadline.count(),
                     " ms for every rank to begin: one is stuck, or makes no mpi::launch"));
  }
}

/// What nobody heard, when all have left: a sentence, or nothing.
[[nodiscard, gnu::cold]] inline std::string mpi_unheard(std::span<const MPI_Comm> lanes, int rank) {
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    int there = 0, bytes = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, lanes[lane], &there, &status);
    if (!there) continue;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return text("rank ", status.MPI_SOURCE, " said ", bytes, " bytes to rank ", rank, " on lane ",
                lane,
                ", which has left the run without hearing them: every rank must make the same "
                "exchanges");
  }
  return {};
}

class mpi_session {
 public:
  /// This process among its like, once MPI runs; ends all if the launcher says otherwise.
  static standing begin() {
    static const mpi_session running;
    return running.here_;
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;

 private:
  // The least that lets the courier's thread speak beside the main one: one call at a time.
  static constexpr int wanted = MPI_THREAD_SERIALIZED;

  mpi_session() {
    int begun = 0, has = wanted;
    MPI_Initialized(&begun);
    if (begun)
      MPI_Query_thread(&has);
    else
      MPI_Init_thread(nullptr, nullptr, wanted, &has);
    ends_ = !begun;
    // Of calls that name no communicator MPI says the errors to one of these.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    here_.said_by = "MPI_COMM_WORLD";
    MPI_Comm_rank(MPI_COMM_WORLD, &here_.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &here_.size);
    if (has < wanted)
      mpi_abort(
          "mpi: this MPI serves one thread alone; ask MPI_Init_thread for at least "
          "MPI_THREAD_SERIALIZED, or use an MPI that has it");
    try {
      if (const auto told = told_standing([](const char* name) { return std::getenv(name); }))
        expect_same(*told, here_);
    } catch (const error& e) {
      mpi_abort(e.what());  // the others wait for this rank to begin, and cannot hear it
    }
  }
  ~mpi_session() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ends_ && !ended) MPI_Finalize();
  }

  standing here_;
  bool ends_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail
