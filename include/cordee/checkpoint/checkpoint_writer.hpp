// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes a checkpoint of all ranks into a run's folder.
//
//   save              rank 0 makes step-N.partial/; each rank writes its files and sums them
//   start_finalizing  rank 0 gathers the sums and writes the list, then the final name and `latest`
//
// What is written beside training is done by a thread of each rank; ranks communicate on the
// caller's thread alone, between steps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cordee/checkpoint/background_job.hpp>
#include <cordee/checkpoint/checksum.hpp>
#include <cordee/checkpoint/run_folder.hpp>
#include <cordee/checkpoint/snapshot.hpp>
#include <cordee/comm/reducers/collectives.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// Blocks until no rank's job is running. The ranks communicate meanwhile, since a large file may
/// take longer than the deadline of an operation. Collective.
template <class Communicator>
void wait_on_all_ranks(const background_job& job, const Communicator& comm) {
  for (std::array<double, 1> running{1}; running[0] > 0;) {
    running[0] = job.finished_within(std::chrono::milliseconds(100)) ? 0 : 1;
    allreduce_host(comm, running, reduce_op::max);
  }
}

/// One checkpoint at a time, on one rank.
class checkpoint_writer {
 public:
  /// Allocates the memory that asynchronous saves of `run` copy to. Requires that none is running.
  template <class Run>
  void prepare(Run& run) {
    reserve_copies(run, memory_);
  }
  /// Waits for the checkpoint before. If `async`, copies the planes and returns while they are
  /// written; otherwise they are written without a copy, and the checkpoint has its final name when
  /// save returns. Collective.
  template <class Run>
  void save(Run& run, const run_folder& folder, int keep, bool async) {
    finish(run.comm());
    step_ = run.steps_taken();
    if (run.comm().rank() == 0) folder.begin(step_);
    barrier(run.comm());
    folder_ = folder;
    keep_ = keep;
    not_finalized_ = true;
    has_common_ = !Run::weights_differ;
    const auto saved = std::make_shared<const snapshot<Run>>(run, async ? &memory_ : nullptr);
    job_.start([this, saved, path = folder.partial_path(step_), rank = run.comm().rank()] {
      folder_.expect_begun(step_, rank);
      saved->write(path);
      if (rank == 0) write_text(path + "/checkpoint.json", saved->run().dump(2) + "\n");
      own_sum_ = checksum_of(path + "/" + rank_file(rank));
    });
    if (!async) finish(run.comm());
  }

  /// Whether this rank's files are being written.
  [[nodiscard]] bool is_writing() const { return not_finalized_ && !job_.finished(); }

  /// Gives a checkpoint whose files are written its final name, beside training; does nothing if
  /// there is none. Requires that is_writing() is false on every rank. Collective.
  template <class Communicator>
  void start_finalizing(const Communicator& comm) {
    if (!not_finalized_) return;
    job_.wait();
    not_finalized_ = false;
    const std::array halves{static_cast<double>(own_sum_ >> 32),
                            static_cast<double>(own_sum_ & 0xffffffffu)};  // exact in doubles
    const std::vector<double> sums = comm::gather_host(comm, halves);      // (ranks, 2)
    if (comm.rank() == 0) job_.start([this, sums] { finalize(sums); });
  }

  /// Blocks until the checkpoint has its final name. Collective.
  template <class Communicator>
  void finish(const Communicator& comm) {
    wait_on_all_ranks(job_, comm);
    start_finalizing(comm);
    wait_on_all_ranks(job_, comm);
    job_.wait();
  }

 private:
  template <class Communicator>
  static void barrier(const Communicator& comm) {
    std::array<double, 1> nothing{};
    allreduce_host(comm, nothing, reduce_op::sum);
  }
  static void write_text(const std::string& path, const std::string& text) {
    const std::array pieces{std::as_bytes(std::span(text))};
    io::write_file(path, pieces);  // which flushes the folder, too
  }
  // The checksums of all ranks' files, and the folder's final name.
  void finalize(const std::vector<double>& sums) const {
    const std::string path = folder_.partial_path(step_);
    checksum_table table;
    for (std::size_t r = 0; 2 * r < sums.size(); ++r)
      table[rank_file(static_cast<int>(r))] = static_cast<std::uint64_t>(sums[2 * r]) << 32 |
                                              static_cast<std::uint64_t>(sums[2 * r + 1]);
    for (const std::string& name : {std::string(common_file), std::string("checkpoint.json")})
      if (has_common_ || name != common_file) table[name] = checksum_of(path + "/" + name);
    write_text(path + "/checksums", checksum_text(table));
    folder_.finalize(step_, keep_);
  }

  run_folder folder_{""};
  std::int64_t step_ = -1;
  int keep_ = 0;
  bool has_common_ = true;      // the file of what all ranks hold alike
  bool not_finalized_ = false;  // files are being written, or are written
  std::uint64_t own_sum_ = 0;
  snapshot_memory memory_;
  background_job job_;  // last: its thread uses the others
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
