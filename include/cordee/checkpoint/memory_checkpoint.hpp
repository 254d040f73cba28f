// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a run in this process's memory, from which a run whose ranks come and go continues
// (comm/transports/zeromq/elastic.hpp).
//
//   memory_checkpoint kept;                 // outlives trainers and communicators
//   ...
//     kept.resume(run);                     // before fit; false if no rank has kept a step
//     run.fit(feed, 90, kept);              // copies the planes after each step
//
// Ranks agree on the last step that any of them has completed: a rank may have finished a step's
// exchange, and updated, when another learns that a rank is lost. Ranks that kept that step send it
// to those that did not, including new ones; no step is undone, and a step that no remaining rank
// completed is repeated, with its samples divided among the remaining ranks. So no sample of an
// epoch is lost or used twice.
//
//   weights and slots, exact mean        alike on all ranks that have kept the step
//   running statistics, residuals;       the mean over the ranks that have kept the step, as a
//   all where weights differ             checkpoint resumed by another number of ranks gives
//                                        (rank_mean.hpp)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/checkpoint/rank_mean.hpp>
#include <cordee/checkpoint/snapshot.hpp>
#include <cordee/checkpoint/snapshot_memory.hpp>
#include <cordee/checkpoint/state_json.hpp>
#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::checkpoints {

/// Effects: x becomes rank `root`'s x on the ranks that `receives` names. Collective.
template <class Communicator, class Receives>
void send_from(const Communicator& comm, int root, span_on<std::byte, cpu> x,
               const Receives& receives) {
  core::pod_vector<send_op<cpu>> out;
  core::pod_vector<recv_op<cpu>> in;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == root || !receives(peer)) continue;
    if (comm.rank() == root) out.push_back({peer, x});
    if (comm.rank() == peer) in.push_back({root, x});
  }
  comm.duplicate(comm::agreement_context)
      .exchange(std::as_const(out).span(), std::as_const(in).span(), cpu::stream{});
}

/// A rank's state as bytes, for a process of the same program, and back.
[[gnu::cold]] inline std::string pack_state(const train::run_state& state) {
  std::string bytes;
  const auto append = [&bytes](const void* data, std::uint64_t size) {
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes.append(static_cast<const char*>(data), size);
  };
  const std::string text = to_json(state).dump();
  append(text.data(), text.size());
  visit_numbers(state, [&](const char*, const std::vector<double>& x) {
    append(x.data(), x.size() * sizeof(double));
  });
  return bytes;
}
[[gnu::cold]] inline train::run_state unpack_state(const std::string& bytes) {
  std::size_t at = 0;
  const auto next = [&] {
    std::uint64_t size = 0;
    if (bytes.size() - at < sizeof size) throw error("a state in memory is cut off");
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (bytes.size() - at < size) throw error("a state in memory is cut off");
    const std::string_view part(bytes.data() + at, size);
    at += size;
    return part;
  };
  train::run_state state = to_run_state(nlohmann::json::parse(next()));
  visit_numbers(state, [&](const char*, std::vector<double>& x) {
    const std::string_view part = next();
    x.resize(part.size() / sizeof(double));
    if (!x.empty()) std::memcpy(x.data(), part.data(), x.size() * sizeof(double));
  });
  return state;
}

}  // namespace detail::checkpoints

/// A callback of fit that keeps the state of each step in this process's memory; see the header's
/// top. For one run at a time.
class memory_checkpoint {
 public:
  /// Step of the state being kept; -1: none.
  [[nodiscard]] std::int64_t steps_kept() const { return step_; }

  /// Restores planes and state of every rank to the last step that any rank has kept; the next fit
  /// continues after it. Returns false, and changes nothing, if no rank has kept one. Call it
  /// before fit in each world. @throws error if a rank has kept another network, optimizer or
  /// reducer, or if the exchange fails; this rank's kept state then remains. Collective.
  template <class Run>
  bool resume(Run& run) {
    check<Run>();
    return run.abort_peers_on_throw([&] { return resume_on_ranks(run); });
  }

  /// Keeps the state at which fit begins.
  template <class Run>
  void begin_on_all_ranks(Run& run, double) {
    check<Run>();
    keep(run);
  }
  /// Keeps the state after a step.
  template <class Run>
  bool step_on_all_ranks(Run& run, double) {
    keep(run);
    return false;
  }
  /// What it keeps, for `describe(run, feed, epochs, callbacks)`.
  template <class Run>
  [[nodiscard, gnu::cold]] std::string describe(Run& run) const {
    return concat("each step's state in memory, for ranks that come and go, ",
                  detail::core::grouped(bytes_of(run)), " bytes");
  }

 private:
  using memory = detail::checkpoints::snapshot_memory;

  template <class Run>
  static constexpr void check() {
    using R = std::remove_cvref_t<decltype(std::declval<Run&>().reducer())>;
    using S = std::remove_cvref_t<decltype(std::declval<Run&>().schedule())>;
    static_assert(!detail::comm::ShardsUpdate<R>,
                  "memory_checkpoint: with sharded each rank has slots that no other has, so they "
                  "are lost with it: use the reducer without sharded, or checkpoints on disk");
    static_assert(!detail::comm::HasReducerState<R, typename Run::Real> &&
                      (R::slots == 0 || detail::comm::HasResidualSlots<R>),
                  "memory_checkpoint: the reducer's memory cannot be divided among another number "
                  "of ranks (residual_slots in comm/reducers/reducer.hpp)");
    static_assert(!detail::schedule::AdaptiveSchedule<S> || detail::schedule::HasScheduleState<S>,
                  "memory_checkpoint: an adaptive schedule needs `std::span<double> state()`, the "
                  "numbers that observe() changes");
  }
  // Bytes of the planes, without the gaps between segments.
  template <class Run>
  static std::size_t bytes_of(Run& run) {
    std::size_t bytes = 0;
    for (const auto& p : detail::checkpoints::saved_planes(run))
      bytes += p.numbers_of(p.held()).size * sizeof(typename Run::Real);
    return bytes;
  }
  template <class Run>
  static void reserve(Run& run, memory& to) {
    cpu::stream workers;
    if constexpr (Run::device::host_memory) workers = run.compute();
    to.reserve(bytes_of(run), run.model().get_device(), workers,
               ", the run's state of each step: leave memory_checkpoint out, and go on from "
               "checkpoints on disk");
  }
  // f(plane's numbers, the same numbers in `of`), for all planes.
  template <class Run, class F>
  static void for_planes(Run& run, memory& of, const F& f) {
    using Real = typename Run::Real;
    std::size_t used = 0;
    for (const auto& p : detail::checkpoints::saved_planes(run)) {
      const auto numbers = p.numbers_of(p.held());
      f(p, numbers, reinterpret_cast<Real*>(of.data() + used));
      used += numbers.size * sizeof(Real);
    }
  }
  template <class Run>
  static void copy(Run& run, typename Run::Real* out, const typename Run::Real* in, std::size_t n) {
    constexpr std::size_t grain = memory::grain / sizeof(*in);
    if constexpr (Run::device::host_memory)
      detail::device::parallel_chunks(run.compute(), n, grain,
                                      [&](std::size_t first, std::size_t last) {
                                        std::copy(in + first, in + last, out + first);
                                      });
    else
      run.model().get_device().copy(out, in, n * sizeof(*in), run.compute());
  }

  template <class Run>
  void keep(Run& run) {
    auto state = run.state();
    reserve(run, memory_);
    for_planes(run, memory_, [&](const auto&, auto numbers, auto* kept) {
      copy(run, kept, numbers.data, numbers.size);
    });
    run.model().get_device().finish(run.compute());
    state_ = std::move(state);
    network_ = network_of(run);
    step_ = run.steps_taken();
  }
  // Describes what a run must have in common with the saved one.
  template <class Run>
  [[gnu::cold]] static std::string network_of(Run& run) {
    using O = std::remove_cvref_t<decltype(run.optimizer())>;
    using R = std::remove_cvref_t<decltype(run.reducer())>;
    return concat(detail::core::fingerprint(run.segments()), " ", O::slots, " ", R::slots, " ",
                  sizeof(typename Run::Real), " ", bytes_of(run));
  }

  template <class Run>
  [[gnu::cold]] bool resume_on_ranks(Run& run) {
    namespace checkpoints = detail::checkpoints;
    const auto& comm = run.comm();
    const std::array<double, 2> own{static_cast<double>(step_),
                                    step_ >= 0 && network_ != network_of(run) ? 1.0 : 0.0};
    const std::vector<double> rows = detail::comm::gather_host(comm, own);
    double last = -1;
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      last = std::max(last, rows[i]);
      if (rows[i + 1] > 0)
        throw error(concat("memory_checkpoint: rank ", i / 2,
                           " has kept another network, optimizer or reducer: continue with those "
                           "that were kept"));
    }
    if (last < 0) return false;
    std::vector<int> holders;  // ranks that have kept the last step
    for (int r = 0; r < comm.size(); ++r)
      if (rows[2 * static_cast<std::size_t>(r)] == last) holders.push_back(r);
    const auto is_holder = [&](int rank) { return std::ranges::count(holders, rank) > 0; };

    memory next;
    reserve(run, next);
    receive_planes(run, next, holders, is_holder);
    std::vector<detail::train::run_state> states;
    for (const int holder : holders) {
      if (!Run::weights_differ && holder != holders.front()) break;  // alike
      states.push_back(state_of(comm, holder));
    }
    auto state = checkpoints::merged_state(states);
    for_planes(run, next, [&](const auto&, auto numbers, auto* kept) {
      copy(run, numbers.data, kept, numbers.size);
    });
    run.model().get_device().finish(run.compute());
    run.restore(state);
    memory_ = std::move(next);
    state_ = std::move(state);
    network_ = network_of(run);
    step_ = static_cast<std::int64_t>(last);
    if (comm.rank() == 0)
      std::fprintf(stderr,
                   "memory_checkpoint: %d ranks go on behind step %lld, %zu of them had it\n",
                   comm.size(), static_cast<long long>(step_), holders.size());
    return true;
  }
  // What all ranks continue with.
  template <class Run, class IsHolder>
  [[gnu::cold]] void receive_planes(Run& run, memory& next, const std::vector<int>& holders,
                                    const IsHolder& is_holder) {
    using Real = typename Run::Real;
    const auto& comm = run.comm();
    const std::byte* own = memory_.data();
    for_planes(run, next, [&](const auto& p, auto numbers, Real* out) {
      const std::size_t n = numbers.size;
      const auto* const kept = reinterpret_cast<const Real*>(own);
      if (own != nullptr) own += n * sizeof(Real);
      const auto received_from = [&](int root, Real* to, const auto& receives) {
        if (comm.rank() == root) std::copy(kept, kept + n, to);
        detail::checkpoints::send_from(
            comm, root, {reinterpret_cast<std::byte*>(to), n * sizeof(Real)}, receives);
      };
      if (is_holder(comm.rank())) std::copy(kept, kept + n, out);
      if (p.common)
        return received_from(holders.front(), out, [&](int rank) { return !is_holder(rank); });
      const auto all = [](int) { return true; };
      received_from(holders.front(), out, all);
      std::vector<Real> other(n);
      std::vector<double> differences(n);  // from the first holder's, summed
      for (std::size_t h = 1; h < holders.size(); ++h) {
        received_from(holders[h], other.data(), all);
        for (std::size_t i = 0; i < n; ++i)
          if (other[i] != out[i])  // an empty range of int8 is infinite
            differences[i] += static_cast<double>(other[i]) - static_cast<double>(out[i]);
      }
      for (std::size_t i = 0; i < n; ++i)
        if (differences[i] != 0)
          out[i] = static_cast<Real>(static_cast<double>(out[i]) +
                                     differences[i] / static_cast<double>(holders.size()));
    });
  }
  template <class Communicator>
  [[gnu::cold]] detail::train::run_state state_of(const Communicator& comm, int holder) const {
    const auto all = [](int) { return true; };
    std::string bytes;
    if (comm.rank() == holder) bytes = detail::checkpoints::pack_state(state_);
    std::uint64_t size = bytes.size();
    detail::checkpoints::send_from(comm, holder, {reinterpret_cast<std::byte*>(&size), sizeof size},
                                   all);
    bytes.resize(size);
    detail::checkpoints::send_from(comm, holder,
                                   {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, all);
    return detail::checkpoints::unpack_state(bytes);
  }

  memory memory_;  // all planes, one after the other
  detail::train::run_state state_{};
  std::string network_;
  std::int64_t step_ = -1;
};

}  // namespace cordee::inline CORDEE_ABI
