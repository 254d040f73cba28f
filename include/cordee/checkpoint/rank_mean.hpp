// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What N ranks have saved, for another number M of ranks: what all ranks held alike stays, of the
// rest each of the M ranks gets the mean over the N.
//
//   weights and optimizer slots, exact mean   alike on all ranks, as they are
//   running statistics                        their mean, which evaluation uses
//   residuals of a compressed reducer         e' = (e_1 + ... + e_N) / N on every rank: the mean of
//                                             M vectors x + e' makes up for as much as that of N
//   weights, local_steps and gossip           the mean model
//   optimizer slots, local_steps and gossip   their mean: momentum is linear in the gradients, so
//                                             the mean is the mean model's; a second moment's mean
//                                             is that of one rank's squared gradient
//
// Ranges of int8 are alike on all ranks and keep their bits. A reducer's other memory has no such
// mean: an asynchronous server's clock counts the pushes of each rank.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/checkpoint/snapshot.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/step/preconditioner.hpp>
#include <cordee/train/step/run_state.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// A line for each thing that another number of ranks changes; empty if it is the same. Throws
/// error where the reducer's memory cannot be divided among them.
template <class Run>
std::string rank_change(int saved, Run& run) {
  using O = std::remove_cvref_t<decltype(run.optimizer())>;
  using R = std::remove_cvref_t<decltype(run.reducer())>;
  constexpr bool forgets_factors =
      train::HasPreconditionerState<train::preconditioner_of<O, typename Run::model_type, R>>;
  const int ranks = run.comm().size();
  if (saved == ranks) return {};
  const std::string remedy = concat(": go on with ", saved, saved == 1 ? " rank" : " ranks",
                                    ", or begin a new run from saved weights, run.load(path)");
  if constexpr (comm::HasReducerState<R, typename Run::Real>)
    throw error(
        concat("resume: the checkpoint has the clock and the pushes of an asynchronous "
               "server of ",
               saved, " ranks, which are not those of ", ranks, remedy));
  else if constexpr (R::slots > 0 && !comm::HasResidualSlots<R>)
    throw error(concat("resume: the checkpoint has the reducer's slots of ", saved,
                       " ranks, of which it is unknown how ", ranks,
                       " ranks share them (residual_slots in comm/reducers/reducer.hpp)", remedy));
  else
    return concat("resume: ", saved, saved == 1 ? " rank -> " : " ranks -> ", ranks,
                  ": every rank begins with the mean of the saved ranks' ",
                  Run::weights_differ ? "weights, optimizer slots and running statistics"
                                      : "running statistics",
                  R::slots > 0 ? ", and of what error feedback has kept back" : "",
                  Run::weights_differ ? "" : "; weights and optimizer slots were alike on all",
                  forgets_factors ? "; the preconditioner's factors are computed anew" : "", "\n");
}

/// The state from which every rank continues: that of the rank which has applied most steps, and
/// the smallest loss scale. Requires at least one.
inline train::run_state merged_state(std::span<const train::run_state> by_rank) {
  const auto fewer = [](const train::run_state& a, const train::run_state& b) {
    return a.progress.applied < b.progress.applied;
  };
  train::run_state merged = *std::max_element(by_rank.begin(), by_rank.end(), fewer);
  for (const train::run_state& s : by_rank)
    if (s.scale.value < merged.scale.value) merged.scale = s.scale;
  merged.preconditioner.clear();  // of one rank's layers
  return merged;
}

/// out <- the mean of a tensor of the files, in doubles; equal numbers keep their bits.
template <class Real>
void read_mean(std::span<const io::tensor_file> files, const std::string& name,
               std::span<Real> out) {
  std::vector<Real> own(out.size());
  std::vector<double> differences(out.size());  // from the first file, summed
  files.front().read(name, out);
  for (const io::tensor_file& file : files.subspan(1)) {
    file.read(name, std::span(own));
    for (std::size_t i = 0; i < out.size(); ++i)
      if (own[i] != out[i])  // an empty range of int8 is infinite
        differences[i] += static_cast<double>(own[i]) - static_cast<double>(out[i]);
  }
  const auto ranks = static_cast<double>(files.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (differences[i] != 0)
      out[i] = static_cast<Real>(static_cast<double>(out[i]) + differences[i] / ranks);
}

/// Rank 0 reads the files of the ranks that saved, and all ranks get the means. Throws error, with
/// the first difference, if they were written by another network. Returns on rank 0 what
/// read_planes does. Collective.
template <class Run>
std::size_t read_mean_planes(Run& run, std::span<const io::tensor_file> files) {
  using Real = typename Run::Real;
  const auto& device = run.model().get_device();
  const bool reads = run.comm().rank() == 0;
  for (const io::tensor_file& file : files) {
    std::size_t tensors = 0;
    for (const auto& p : saved_planes(run))
      for (const segment& s : p.segments) {
        if (p.common) continue;
        expect_tensor<Real>(file, p.prefix + std::string(s.name), s);
        ++tensors;
      }
    if (tensors + count_numbers(file) != file.entries().size())
      throw error(concat(
          "resume: ", file.path(), " has ", file.entries().size(), " tensors, this run ", tensors,
          ": continue with the network, the optimizer and the reducer that were saved"));
  }
  std::size_t left_out = 0;
  for (const auto& p : saved_planes(run)) {
    if (p.common || p.segments.empty()) continue;
    for (const segment& s : p.segments) {
      if (!reads) break;
      std::vector<Real> mean(s.size);
      const std::string name = p.prefix + std::string(s.name);
      if (!p.plane.has(s)) {
        left_out += std::any_of(files.begin(), files.end(), [&](const io::tensor_file& file) {
          return has_numbers<Real>(file, name, s.size);
        });
        continue;
      }
      read_mean(files, name, std::span(mean));
      device.copy(p.plane.of(s.offset, s.size).data, mean.data(), s.size * sizeof(Real),
                  run.compute());
      device.finish(run.compute());
    }
    comm::broadcast(run.comm(), p.numbers_of(p.held()), run.compute());
  }
  return left_out;
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
