// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Resuming: run.resume(folder) loads the newest complete checkpoint of a folder (checkpoint.hpp).
//
//   run.resume("runs/a");                                  // before fit; false if there is none
//   run.fit(feed, 90, checkpoint{.folder = "runs/a"});     // continues at the saved update
//
// The run continues with the bits that it would have had: weights, losses and samples. With another
// number of ranks it continues from the mean of what differed between them (rank_mean.hpp).
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <cordee/checkpoint/checksum.hpp>
#include <cordee/checkpoint/compatibility.hpp>
#include <cordee/checkpoint/rank_mean.hpp>
#include <cordee/checkpoint/read_outcome.hpp>
#include <cordee/checkpoint/run_folder.hpp>
#include <cordee/checkpoint/snapshot.hpp>
#include <cordee/comm/reducers/collectives.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::checkpoints {

/// A whole checkpoint, as this rank reads it.
struct whole_checkpoint {
  nlohmann::json run;
  std::optional<io::tensor_file> common;
  /// This rank's; if another number of ranks saved, those of all of them on rank 0.
  std::vector<io::tensor_file> own;
  train::run_state state;

  [[nodiscard]] int ranks() const { return run.at("ranks").get<int>(); }
};

using io::read_text;

/// Reads and checks what this rank needs of the checkpoint of this step. Throws io::read_error if
/// any of it cannot be read, another error or a nlohmann::json::exception if it is damaged. If
/// another number of ranks saved, rank 0 checks their files, of which the others read the states
/// alone.
inline whole_checkpoint read_whole(const std::string& folder, std::int64_t step, int rank,
                                   int ranks) {
  const std::string list = folder + "/checksums";
  const checksum_table checksums = parse_checksums(read_text(list), list);
  whole_checkpoint c;
  expect_checksum(folder, "checkpoint.json", checksums);
  c.run = nlohmann::json::parse(read_text(folder + "/checkpoint.json"));
  expect_description(c.run);
  if (c.run.at("format").get<int>() > format) return c;
  if (const auto saved = c.run.at("step").get<std::int64_t>(); saved != step)
    throw error(concat("it is the checkpoint of step ", saved, " under the name of step ", step));
  if (!c.run.at("weights_differ").get<bool>()) {
    expect_checksum(folder, std::string(common_file), checksums);
    c.common = io::tensor_file::open(folder + "/" + std::string(common_file));
  }
  const bool same = c.ranks() == ranks;
  std::vector<train::run_state> states;
  for (int r = same ? rank : 0; r < (same ? rank + 1 : c.ranks()); ++r) {
    if (same || rank == 0) expect_checksum(folder, rank_file(r), checksums);
    const io::tensor_file file = io::tensor_file::open(folder + "/" + rank_file(r));
    states.push_back(read_state(file));
    if (same || rank == 0) c.own.push_back(file);
  }
  c.state = same ? states.front() : merged_state(states);
  return c;
}

/// The newest checkpoint that is whole on every rank; nothing if the folder has none. Those that
/// are damaged are named on standard error, and renamed. Throws error if only damaged ones are
/// left, and if a rank cannot read. Collective.
template <class Run>
std::optional<whole_checkpoint> newest_whole(Run& run, const run_folder& folder) {
  const auto& comm = run.comm();
  std::vector<std::int64_t> steps;  // rank 0's count
  std::size_t damaged = 0;
  throw_read_failure(comm, folder.path(), outcome_of([&] {
                       steps = folder.steps();
                       damaged = folder.damaged();
                     }));
  const auto of_first = [&](double x) {
    return comm::max_over_ranks(comm, comm.rank() == 0 ? x : -1);
  };
  const auto count = static_cast<std::size_t>(of_first(static_cast<double>(steps.size())));
  const bool others_see = comm::max_over_ranks(comm, static_cast<double>(steps.size())) > 0;
  throw_on_all_ranks(
      comm, count == 0 && others_see && comm.rank() == 0
                ? concat("resume: ", describe_rank(0), " sees no checkpoint in ", folder.path(),
                         ", but another rank does: start all ranks where they see "
                         "one folder under that name")
                : std::string());
  if (count == 0 && of_first(static_cast<double>(damaged)) > 0)
    throw error(only_damaged_left("resume", folder.path()));
  for (std::size_t k = 0; k < count; ++k) {
    const auto step =
        static_cast<std::int64_t>(of_first(comm.rank() == 0 ? static_cast<double>(steps[k]) : 0));
    const std::string path = folder.final_path(step);
    whole_checkpoint c;
    const read_outcome own =
        outcome_of([&] { c = read_whole(path, step, comm.rank(), comm.size()); });
    throw_read_failure(comm, path, own);
    if (!own.damage.empty())
      std::fprintf(stderr, "resume: %s is damaged: %s\n", path.c_str(), own.damage.c_str());
    if (comm::max_over_ranks(comm, own.damage.empty() ? 0 : 1) == 0) return c;
    if (comm.rank() != 0) continue;
    const std::string aside = folder.set_damaged_aside(step);
    std::fputs(aside.empty() ? "resume: it cannot be renamed, and keeps its name\n"
                             : concat("resume: it is renamed to ", aside, "\n").c_str(),
               stderr);
  }
  if (count > 0)
    throw error(concat("resume: all ", count, " checkpoints in ", folder.path(),
                       " are damaged: restore the folder from a copy, or begin in another one"));
  return {};
}

}  // namespace detail::checkpoints

/// Restores planes and state of every rank from the newest complete checkpoint; the next fit
/// continues at its update. Returns false, and changes nothing, if the folder has no checkpoint.
/// Prints on rank 0 what differs but may: options, schedule, reducer, number of ranks, slots of
/// tensors that are now frozen. Throws error for a checkpoint of another network, type of optimizer
/// or precision, for another number of ranks if there is no mean (rank_mean.hpp), if a rank cannot
/// read, and if only damaged checkpoints remain. Collective.
template <class Run>
bool resume_run(Run& run, const std::string& folder) {
  namespace checkpoints = detail::checkpoints;
  const auto found =
      checkpoints::newest_whole(run, checkpoints::run_folder(checkpoints::absolute(folder)));
  const bool reports = run.comm().rank() == 0;
  if (!found) {
    if (reports)
      std::fprintf(stderr, "resume: no checkpoint in %s: the run begins at step 0\n",
                   folder.c_str());
    return false;
  }
  std::string changed = checkpoints::expect_compatible(found->run, found->state, run, folder);
  try {
    std::size_t left_out = 0;
    if (found->common) left_out += checkpoints::read_planes(run, *found->common, true);
    if (found->ranks() == run.comm().size())
      left_out += checkpoints::read_planes(run, found->own.front(), false);
    else
      left_out += checkpoints::read_mean_planes(run, found->own);
    changed += checkpoints::describe_left_out(left_out);
  } catch (const detail::io::read_error& e) {
    throw error(concat("resume: ", checkpoints::describe_rank(run.comm().rank()), ": ", e.what()));
  }
  run.restore(found->state);
  if (reports) std::fputs(changed.c_str(), stderr);
  return true;
}

}  // namespace cordee::inline CORDEE_ABI
