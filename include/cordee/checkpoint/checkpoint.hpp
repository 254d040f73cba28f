// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of a run: a callback of fit that saves it while training continues.
//
//   FOLDER/latest -> step-00001500        the newest complete one
//   FOLDER/lock                           names the job that saves here
//   FOLDER/step-00001500/
//     checkpoint.json                     step, ranks, names of the policies, version, seed
//     common.safetensors                  weights and optimizer slots, if all ranks hold the same
//     rank-0.safetensors, …               what differs between ranks, and each rank's run_state
//     checksums                           XXH3 of the others, which `xxhsum --check` reads
//
//   run.resume("runs/a");
//   run.fit(feed, 90, checkpoint{.folder = "runs/a", .every = {.steps = 500}, .keep = 3});
//
// On SIGTERM, SIGINT (Ctrl-C) or SIGUSR1 to any rank, all ranks save and fit returns; a second
// signal ends the process. MPICH's mpirun forwards all three to its ranks, torchrun the first two,
// after which it waits for 30 seconds. Open MPI forwards SIGUSR1, and kills the ranks within a few
// seconds after the others, so examples/launch/mpirun.sh sends it SIGUSR1 instead.
//
// Training waits while the planes are copied to host memory, which fit allocates at its start; a
// thread of each rank writes them. With `.async = false` only an asynchronous server's weights are
// copied: the planes are written directly to the files, from a device through a buffer of 8 MiB,
// and training waits until they are on disk. A checkpoint gets its final name when the files of all
// ranks are on disk. All ranks must be able to access the folder.
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/checkpoint/checkpoint_writer.hpp>
#include <cordee/checkpoint/folder_lock.hpp>
#include <cordee/checkpoint/resume.hpp>
#include <cordee/checkpoint/run_folder.hpp>
#include <cordee/checkpoint/stop_signal.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

/// When a checkpoint is due: when the first of the three is reached; 0: never.
struct checkpoint_interval {
  /// Saves at each multiple of this many steps. Unit: steps, including skipped ones. Range: 0 or
  /// more, and one of the three above 0, else usage_error.
  std::int64_t steps = 0;
  /// Saves this many minutes after the last checkpoint, by rank 0's clock. Unit: minutes. Range:
  /// finite, 0 or more, else usage_error.
  double minutes = 0;
  /// Saves at each multiple of this many epochs. Unit: epochs. Range: finite, 0 or more, else
  /// usage_error.
  double epochs = 0;
};

/// A callback of fit that saves a run; see the header's top.
struct checkpoint {
  /// Folder of the run, accessible to all ranks; created if missing. Range: not empty, else
  /// usage_error.
  std::string folder;
  /// When checkpoints are due, besides the end of fit and signals. Range: no member below 0, one
  /// above, else usage_error.
  checkpoint_interval every{.epochs = 1};
  /// Number of newest checkpoints to keep; older ones are removed. Range: 1 or more, else
  /// usage_error.
  int keep = 3;
  /// Whether a copy of the planes is written in the background while training continues. False: no
  /// copy is made, and the step waits.
  bool async = true;
  /// How to resume the run, for messages: for example an option of the program. Empty: the call
  /// resume("FOLDER").
  std::string resumed_by{};

  /// State: rank 0's lock of the folder, while fit runs.
  std::unique_ptr<detail::checkpoints::folder_lock> lock{};
  /// State: receives signals while fit runs.
  std::unique_ptr<detail::checkpoints::stop_signal> signals{};
  detail::checkpoints::checkpoint_writer writer{};  ///< State: the files being written.
  double epoch = 0;                                 ///< State: epoch of the previous update.
  std::int64_t saved = -1;                          ///< State: the step saved last; -1: none.
  /// State: when it was saved, or when fit began.
  std::chrono::steady_clock::time_point saved_at{};

  /// One line that must agree on all ranks.
  [[nodiscard, gnu::cold]] std::string rank_settings() const {
    return concat("checkpoint, .every ", every.steps, " steps, ", every.epochs, " epochs");
  }

  /// What is saved when, and this rank's memory for it, for `describe(run, feed, epochs,
  /// callbacks)`.
  template <class Run>
  [[nodiscard, gnu::cold]] std::string describe(Run& run) const {
    std::string out = concat(folder, ", the newest ", keep);
    if (every.steps > 0) out += concat(", every ", every.steps, " steps");
    if (every.minutes > 0) out += concat(", every ", every.minutes, " minutes");
    if (every.epochs > 0) out += concat(", every ", every.epochs, " epochs");
    if (!async) return out + "; steps wait while it is written";
    return out + concat("; ", detail::core::grouped(detail::checkpoints::snapshot_bytes(run)),
                        " bytes of host memory for the copy that is written beside training");
  }

  /// Locks the folder before other callbacks open their files. @throws usage_error for an option
  /// outside its range, error for a folder that cannot be written, that another job saves into,
  /// whose checkpoints are all damaged, or that has a checkpoint of a later step than this run's.
  template <class Run>
  void check_on_all_ranks(Run& run, double) {
    using S = std::remove_cvref_t<decltype(run.schedule())>;
    static_assert(!detail::schedule::AdaptiveSchedule<S> || detail::schedule::HasScheduleState<S>,
                  "checkpoint: an adaptive schedule needs `std::span<double> state()`, the numbers "
                  "that observe() changes");
    expects(!folder.empty(), "checkpoint: .folder is empty: name the run's folder");
    expects(keep >= 1, "checkpoint: .keep must be 1 or more");
    expects(every.steps >= 0 && every.minutes >= 0 && every.epochs >= 0 &&
                std::isfinite(every.minutes) && std::isfinite(every.epochs) &&
                (every.steps > 0 || every.minutes > 0 || every.epochs > 0),
            "checkpoint: one of .every.steps, .minutes and .epochs must be above 0");
    const detail::checkpoints::run_folder all(folder);
    std::vector<std::int64_t> present;
    bool only_damaged = false;
    lock.reset();  // of a fit that threw
    if (run.comm().rank() == 0) {
      all.create();
      lock = std::make_unique<detail::checkpoints::folder_lock>(folder);
      present = all.steps();
      only_damaged = present.empty() && run.steps_taken() == 0 && all.damaged() > 0;
    }
    const double newest = detail::comm::max_over_ranks(
        run.comm(), present.empty() ? -1.0 : static_cast<double>(present.front()));
    if (detail::comm::max_over_ranks(run.comm(), only_damaged ? 1 : 0) > 0)
      throw error(detail::checkpoints::only_damaged_left("checkpoint", folder));
    saved = static_cast<std::int64_t>(newest);
    if (saved > run.steps_taken())
      throw error(concat("checkpoint: ", folder, " has a checkpoint of step ", saved,
                         ", this run is at step ", run.steps_taken(), ": continue that run by ",
                         way_to_resume(), ", or name another folder"));
  }
  /// Removes unfinished checkpoints left by killed processes, and starts to receive signals.
  template <class Run>
  void begin_on_all_ranks(Run& run, double start) {
    if (run.comm().rank() == 0) detail::checkpoints::run_folder(folder).remove_strays();
    if (async) writer.prepare(run);
    signals = std::make_unique<detail::checkpoints::stop_signal>();
    epoch = start;
    saved_at = std::chrono::steady_clock::now();
  }

  /// Saves if a checkpoint is due. Once any rank has received SIGTERM, SIGINT or SIGUSR1, saves and
  /// returns true on all ranks, which ends fit.
  template <class Run>
  bool step_on_all_ranks(Run& run, double now) {
    const std::chrono::duration<double, std::ratio<60>> since =
        std::chrono::steady_clock::now() - saved_at;
    const bool late = every.minutes > 0 && run.comm().rank() == 0 && since.count() >= every.minutes;
    const bool requested = detail::checkpoints::stop_signal::requested();
    // What differs between ranks, in one message.
    std::array votes{writer.is_writing() ? 1.0 : 0.0, late ? 1.0 : 0.0, requested ? 1.0 : 0.0};
    allreduce_host(run.comm(), votes, reduce_op::max);
    const bool stops = votes[2] > 0;
    if (votes[0] == 0) writer.start_finalizing(run.comm());
    if (stops || votes[1] > 0 || is_due(run, now)) save(run);
    if (stops && run.comm().rank() == 0)
      std::fprintf(stderr,
                   "checkpoint: stopped by a signal after step %lld, which is saved: "
                   "%s goes on\n",
                   static_cast<long long>(run.steps_taken()), way_to_resume().c_str());
    epoch = now;
    return stops;
  }

  /// Always saves at the end of fit, and blocks until the checkpoint is on disk.
  template <class Run>
  void end_on_all_ranks(Run& run) {
    if (saved != run.steps_taken()) save(run);
    writer.finish(run.comm());
    signals.reset();
    lock.reset();
  }

 private:
  [[nodiscard]] std::string way_to_resume() const {
    return resumed_by.empty() ? concat("resume(\"", folder, "\")") : resumed_by;
  }
  template <class Run>
  void save(Run& run) {
    writer.save(run, detail::checkpoints::run_folder(folder), keep, async);
    saved = run.steps_taken();
    saved_at = std::chrono::steady_clock::now();
  }
  // The same on every rank.
  template <class Run>
  [[nodiscard]] bool is_due(Run& run, double now) const {
    // 0.1 of 30 updates are 3, although the double 0.1 is more than a tenth.
    const auto periods = [&](double x) { return std::floor(x / every.epochs * (1 + 1e-12)); };
    if (every.steps > 0 && run.steps_taken() % every.steps == 0) return true;
    return every.epochs > 0 && periods(now) > periods(epoch);
  }
};

}  // namespace cordee::inline CORDEE_ABI
