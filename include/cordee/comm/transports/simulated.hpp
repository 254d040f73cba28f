// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as fibers of one thread under a virtual clock: thousands on a laptop, with the same
// reducers as in training. A separate component, which needs Boost.Context.
//
//   const simulation s = simulated::launch(4096, [](simulated comm) {
//     const phantom device = comm.device();
//     ... ring{comm}.mix(bucket of phantom memory, step_info{}, device.make_stream());
//   }, {.network = {.link = {.latency = 5e-6, .bandwidth = 12.5e9}}});
//   s.path.seconds, s.path.messages, s.rounds ...
//
// {.contended = fat_tree{...}} or read_machine(file): messages share a machine's links.
//
// On device phantom messages have only sizes; on the CPU they carry their bytes, and computation
// time is not counted. Two runs have bitwise equal times. There is no deadline: a deadlock is
// detected at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <cordee/comm/transports/simulated/critical_path.hpp>
#include <cordee/comm/transports/simulated/simulation.hpp>
#include <cordee/comm/transports/simulated/world.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI {

/// The communicator of one rank of `simulated::launch`.
class simulated {
 public:
  static constexpr bool blocks_host = false;  ///< See TransportOn.
  /// The transport's name in messages.
  static constexpr std::string_view name = "simulated";
  static constexpr std::size_t bucket_bytes = std::size_t{16} << 20;  ///< The default of a GPU.

  using options = detail::comm::simulation_options;  ///< What launch() simulates.

  /// Runs f(comm) on each of `ranks` ranks. If one throws, the others stop at their next exchange.
  /// @throws error for the first failure, "rank 2: ...", a message that is never received, or ranks
  /// that all wait; usage_error for less than one rank, or options outside their ranges.
  template <class F>
  static simulation launch(int ranks, const F& f, const options& o = {}) {
    expects(ranks > 0, "simulated::launch: at least one rank");
    detail::comm::check_simulation(o);
    detail::comm::simulated_world world(ranks, o);
    for (int rank = 0; rank < ranks; ++rank)
      world.start({.rank = rank}, [&f, comm = simulated(world, rank, 0)] { f(comm); });
    world.run();
    if (world.first_failure.happened()) throw error(world.first_failure.describe());
    if (const std::string why = world.unreceived(); !why.empty()) throw error(why);
    return world.result();
  }

  /// This rank's number, from 0.
  [[nodiscard]] int rank() const { return rank_; }
  /// Number of simulated ranks.
  [[nodiscard]] int size() const { return world_->size(); }
  /// The same ranks on context k (comm/transports/transport.hpp).
  /// @throws usage_error for a context that does not exist.
  [[nodiscard]] simulated duplicate(int k) const {
    expects(k >= 0 && k < detail::comm::context_count, "simulated: no such context");
    return {*world_, rank_, k};
  }

  /// See TransportOn. On device `phantom` messages have only sizes.
  template <Device D>
    requires(D::host_memory || std::same_as<D, phantom>)
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream) const {
    world_->exchange<D>(rank_, context_, out, in);
  }

  /// This rank's device without memory: reductions on it advance the virtual time.
  [[nodiscard]] phantom device() const { return phantom{world_->work_of(rank_)}; }
  /// This rank's virtual time.
  [[nodiscard]] double now() const { return record().seconds; }
  /// A point of this rank's virtual time, and the path to it.
  using event = critical_path;
  /// This rank's time, and the path to it, for await().
  [[nodiscard]] event record() const {
    world_->count_work(rank_);
    return world_->clock();
  }
  /// Advances the calling fiber, of this rank or another, to that time unless it is past.
  void await(const event& e) const { world_->clock() = detail::comm::later(record(), e); }
  /// Advances this rank's time by `seconds` of computation.
  void compute(double seconds) const {
    expects(seconds >= 0 && detail::core::isfinite(seconds),
            "simulated: a computation takes a finite time, 0 or more");
    world_->clock().seconds += seconds;
  }
  /// Runs f() and g() concurrently, as two threads of this rank would; f first, until it waits. f
  /// must not throw.
  template <class F, class G>
  void concurrently(const F& f, const G& g) const {
    world_->concurrently(rank_, f, g);
  }

  /// A fiber of this rank. join() requires joinable() and blocks until the fiber has ended; as with
  /// std::thread, a fiber can be joined once.
  class task {
   public:
    task() = default;
    task(task&& other) noexcept : world_(std::exchange(other.world_, nullptr)), id_(other.id_) {}
    task& operator=(task&& other) noexcept {
      world_ = std::exchange(other.world_, nullptr);
      id_ = other.id_;
      return *this;
    }
    /// Whether there is a fiber to join.
    [[nodiscard]] bool joinable() const { return world_ != nullptr; }
    /// Blocks until the fiber has ended.
    /// @throws usage_error if there is none.
    void join() {
      expects(joinable(), "simulated: join() of a task that has been joined or was never started");
      world_->join(id_);  // if this fiber is unwound from it, a destructor may join again
      world_ = nullptr;
    }

   private:
    friend class simulated;
    task(detail::comm::simulated_world& world, std::size_t id) : world_(&world), id_(id) {}
    detail::comm::simulated_world* world_ = nullptr;
    std::size_t id_ = 0;
  };
  /// Starts f() concurrently with the caller, at the current time. An exception from it fails the
  /// run.
  template <class F>
  [[nodiscard]] task start_task(F f) const {
    return {*world_, world_->start_beside(rank_, std::move(f))};
  }

  /// Receives from any source: blocks until a message is pending on this context, and returns the
  /// sender of the one sent first. If none of `expected` will send, that is detected at once.
  [[nodiscard]] int probe_any(std::span<const int> expected) const {
    return world_->probe_any(rank_, context_, expected);
  }

  /// Ends the run: this cause is thrown on every rank that waits now or later.
  void abort(const char* why) const { world_->fail(rank_, why); }

 private:
  simulated(detail::comm::simulated_world& world, int rank, int context)
      : world_(&world), rank_(rank), context_(context) {}

  detail::comm::simulated_world* world_;
  int rank_, context_;
};

}  // namespace cordee::inline CORDEE_ABI
