// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How reading a checkpoint ended on a rank. What was read whole and has a wrong checksum or form is
// damaged; what could not be read (no such folder, no permission, no descriptor or memory left, a
// disk that fails) says nothing about the checkpoint, and ends the run on every rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/host_name.hpp>
#include <cordee/io/file.hpp>
#include <cordee/train/checks/settings.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// The path from the root: ranks may run in different folders.
inline std::string absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return failed ? path : whole.string();
}

/// "rank 3 on node7"
inline std::string describe_rank(int rank) {
  return concat("rank ", rank, " on ", core::host_name());
}

/// The reason of whichever has occurred; both are empty where everything was read.
struct read_outcome {
  std::string damage, failure;
};

/// Calls f(), which reads.
template <class F>
read_outcome outcome_of(const F& f) {
  try {
    f();
    return {};
  } catch (const io::read_error& e) {
    return {{}, e.what()};
  } catch (const error& e) {
    return {e.what(), {}};
  } catch (const nlohmann::json::exception& e) {
    return {e.what(), {}};
  } catch (const std::exception& e) {  // no memory, for one
    return {{}, e.what()};
  }
}

/// Throws error on every rank, with the sentence of the lowest rank that has one. Collective.
template <class Communicator>
void throw_on_all_ranks(const Communicator& comm, const std::string& sentence) {
  const int ranks = comm.size();
  const double lowest = -comm::max_over_ranks(comm, sentence.empty() ? -ranks : -comm.rank());
  if (lowest >= ranks) return;
  const auto longest =
      static_cast<std::size_t>(comm::max_over_ranks(comm, static_cast<double>(sentence.size())));
  std::string chosen = sentence;
  if constexpr (!comm::single_rank<Communicator>)
    chosen = train::gather_texts(comm, sentence, static_cast<std::size_t>(lowest), longest)[1];
  throw error(chosen);
}

/// Throws error on every rank if one could not read `path`. Collective.
template <class Communicator>
void throw_read_failure(const Communicator& comm, const std::string& path,
                        const read_outcome& own) {
  throw_on_all_ranks(
      comm,
      own.failure.empty()
          ? std::string()
          : concat("resume: ", describe_rank(comm.rank()), " cannot read ", path, ": ", own.failure,
                   ". Nothing is renamed: start again where every rank can read that "
                   "folder. If it has lost files for good, move it elsewhere, and the "
                   "checkpoint before is taken"));
}

inline std::string only_damaged_left(const char* where, const std::string& folder) {
  return concat(where, ": ", folder,
                " has damaged checkpoints alone, the names with .damaged: restore the folder from "
                "a copy, or begin in another one");
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
