// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which GPU a rank uses. The launcher gives a rank's number within its machine, and no GPU;
// a device that is made without an ordinal chooses one by that number.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::device {

/// A rank among those of its machine to which the same GPUs are visible.
struct local_rank {
  int rank = 0, size = 1;
  bool share_gpus = false;                   // several ranks may use one GPU
  const char* options = "";                  // whose share_gpus that is: "mpi::options"
  int ordinal = -1;                          // the GPU that the launcher has chosen, if it has
  int first_in_process = 0, in_process = 1;  // the ranks that are threads of this process

  /// Thread `k` of `threads` that are ranks in a process which is itself a rank (`outer`), if it is
  /// one: the threads of all processes of the machine are numbered process by process. Requires
  /// that each starts as many. Threads of a rank that has chosen its GPU use it all.
  [[nodiscard]] static local_rank of_thread(const std::optional<local_rank>& outer, int k,
                                            int threads, bool share_gpus, const char* options) {
    local_rank r;
    const int process = outer ? outer->rank : 0, processes = outer ? outer->size : 1;
    r.first_in_process = process * threads;
    r.in_process = threads;
    r.rank = r.first_in_process + k;
    r.size = processes * threads;
    r.share_gpus = share_gpus || (outer && outer->share_gpus);
    r.options = options;
    r.ordinal = outer ? outer->ordinal : -1;
    return r;
  }

  /// The GPU of this rank among `gpus`: that of its number, or its number modulo `gpus` where ranks
  /// may share. Throws on every rank of the machine if there are fewer GPUs than ranks and they may
  /// not.
  [[nodiscard]] int choose(int gpus) const {
    if (ordinal >= 0 || gpus <= 0) return ordinal >= 0 ? ordinal : 0;
    if (size > gpus && !share_gpus)
      throw error(concat("local rank ", rank, ": local ranks 0 to ", size - 1,
                         " of this machine have only ", gpus == 1 ? "GPU 0" : "GPUs 0 to ",
                         gpus == 1 ? "" : concat(gpus - 1),
                         ": start at most one rank for each GPU, show each rank another GPU by "
                         "CUDA_VISIBLE_DEVICES, or let ranks share them with ",
                         options, "{.share_gpus = true}"));
    return rank % gpus;
  }
  /// The other GPUs on which ranks of this process run.
  [[nodiscard]] std::vector<int> peers(int gpus) const {
    std::vector<int> ordinals;
    for (int k = 0; ordinal < 0 && in_process > 1 && k < std::min(in_process, gpus); ++k)
      if (const int peer = (first_in_process + k) % gpus; peer != rank % gpus)
        ordinals.push_back(peer);
    return ordinals;
  }
  /// How many ranks of the machine use that GPU.
  [[nodiscard]] int sharing(int gpus) const {
    return ordinal >= 0 || gpus <= 0 ? 1 : (size - 1 - rank % gpus) / gpus + 1;
  }
};

/// The calling thread's, or its process's, while such a scope exists there.
class local_rank_scope {
 public:
  enum extent { thread, process };

  local_rank_scope(const local_rank& rank, extent where) : rank_(rank), where_(where) {
    if (where_ == thread)
      outer_ = std::exchange(of_thread(), &rank_);
    else
      outer_ = of_process().exchange(&rank_);
  }
  local_rank_scope(const local_rank_scope&) = delete;
  local_rank_scope& operator=(const local_rank_scope&) = delete;
  ~local_rank_scope() {
    if (where_ == thread)
      of_thread() = outer_;
    else
      of_process() = outer_;
  }

  /// Empty outside of launchers.
  [[nodiscard]] static std::optional<local_rank> current() {
    const local_rank* const rank = of_thread() != nullptr ? of_thread() : of_process().load();
    return rank == nullptr ? std::nullopt : std::optional(*rank);
  }

 private:
  static const local_rank*& of_thread() {
    thread_local const local_rank* rank = nullptr;
    return rank;
  }
  static core::atomic<const local_rank*>& of_process() {
    static core::atomic<const local_rank*> rank{nullptr};
    return rank;
  }

  const local_rank rank_;
  const extent where_;
  const local_rank* outer_ = nullptr;
};

/// The GPUs visible to this process, by PCI bus id and in the order of their ordinals; set where a
/// program includes a device of CUDA. A transport without GPU support compares ranks' lists: a
/// launcher may show each rank another one, as "GPU 0" (Slurm's ConstrainDevices).
inline std::string (*list_visible_gpus)() = nullptr;

/// The ordinal of a device that is made without one: count() GPUs are visible; outside of launchers
/// it is the calling thread's current one.
template <class Count, class Current>
int default_ordinal(const Count& count, const Current& current) {
  const auto rank = local_rank_scope::current();
  return rank ? rank->choose(count()) : current();
}

/// "GPU 1 (NVIDIA H200)", and how many ranks of the machine share it.
inline std::string describe_gpu(int ordinal, const std::string& card, int gpus) {
  const auto rank = local_rank_scope::current();
  const int ranks = rank ? rank->sharing(gpus) : 1;
  return concat("GPU ", ordinal, " (", card, ")",
                ranks == 1 ? "" : concat(", shared by ", ranks, " ranks of this machine"));
}

}  // namespace cordee::inline CORDEE_ABI::detail::device
