// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process: several ranks on a laptop, in one debugger.
//
// A long message is a pointer in the receiver's queue: the receiver copies (or adds) directly from
// the sender's memory, and the sender waits until it has. A short message is copied into the queue.
// Every wait has a deadline, and the first failure of any rank wakes all.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <cordee/comm/failure/failure.hpp>
#include <cordee/comm/transports/threads/context.hpp>
#include <cordee/comm/transports/threads/exit_latch.hpp>
#include <cordee/comm/transports/threads/world.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/atomic.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/local_rank.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::comm {
struct thread_options {
  /// How long a rank waits for another before it ends the run with an error that names that rank.
  /// Unit: milliseconds. Range: above 0, else usage_error. More than a hundred years, as
  /// `milliseconds::max()`, counts as a hundred years. All ranks then have as long again to end, at
  /// most ten seconds, not counting time without a core for a thread of the process (at most five
  /// times as much); after that the process ends.
  std::chrono::milliseconds deadline{120'000};
  /// Whether ranks may share a GPU if there are fewer GPUs than ranks.
  bool share_gpus = false;
};
}  // namespace detail::comm

/// Communicator of one rank of `threads::launch`.
class threads {
 public:
  /// See TransportOn.
  static constexpr bool blocks_host = true;
  /// The transport's name in messages.
  static constexpr std::string_view name = "threads";

  using options = detail::comm::thread_options;  ///< Options of launch().

  /// Runs f(comm) on `ranks` threads, each with max(1, cores / ranks) workers, and returns when all
  /// have ended. A GPU created there without an ordinal is that of the rank's number; if the
  /// process is itself a rank of another launcher, that of the thread's number among all processes
  /// of the machine. If a rank throws, the others stop at their next exchange, and the first
  /// failure is thrown as error: "rank 2: ...". Ends the process if a rank does not end within the
  /// grace period after that.
  template <class F>
  static void launch(int ranks, const F& f, options o = {}) {
    expects(ranks > 0, "threads::launch: at least one rank");
    team<F> all{f, ranks, o};
    std::vector<detail::core::thread> running(static_cast<std::size_t>(ranks));
    for (detail::core::thread& t : running) t = detail::core::start_thread<&team<F>::run_next>(all);
    all.world->await_exit(all.ended);
    for (detail::core::thread& t : running) t.join();
    if (all.world->failed()) throw error(all.world->first_failure.describe());
    if (const std::string why = all.world->unreceived(); !why.empty()) throw error(why);
  }

  /// Number of this thread, from 0.
  [[nodiscard]] int rank() const { return context_.rank(); }
  /// Number of threads that launch() started.
  [[nodiscard]] int size() const { return context_.world().size; }
  /// The same ranks on context k (comm/transports/transport.hpp).
  /// @throws usage_error for a context that does not exist.
  [[nodiscard]] threads duplicate(int k) const {
    expects(k >= 0 && k < detail::comm::context_count, "threads: no such context");
    return threads{context_.duplicate(k)};
  }

  /// Exchange of host memory: the receiver copies from the sender's, or from a copy of a short
  /// message.
  /// @throws usage_error for a peer that does not exist; error if the run fails.
  template <Device D>
    requires(D::host_memory)
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    context_.transfer<D>(out, in, copy_message, s);
  }

  /// Exchange of GPU memory: the sender finishes its stream before it posts, and the receiver
  /// copies from one GPU to the other.
  template <Device D>
    requires GpuStream<typename D::stream>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    s.finish();
    context_.transfer<D>(out, in, copy_message_on_gpu<typename D::stream>, s);
  }

  /// As exchange(), but the receiver adds messages to its memory.
  template <class Real, Device D>
    requires(D::host_memory)
  void exchange_add(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                    typename D::stream s) const {
    context_.transfer<D>(out, in, add_message<Real>, s);
  }

  /// See AnySource.
  /// @throws usage_error on a context other than that of requests.
  [[nodiscard]] int probe_any(std::span<const int> expected) const {
    expects(context_.number() == detail::comm::request_context,
            "threads: probe_any requires the request context");
    return context_.probe_any(expected);
  }

  /// The mean over ranks, in place, in shared memory (threads/shared_mean.hpp), summed in rank
  /// order.
  template <class Real, Device D>
    requires(D::host_memory)
  void mean(span_on<Real, D> x, typename D::stream) const {
    if (size() == 1) return;
    detail::comm::shared_mean& shared = context_.world().mean_of(context_.number());
    shared.publish(rank(), x.data, x.size);
    context_.enter_barrier(shared, bytes(x).size);
    if (shared.is_short(bytes(x).size)) return shared.mean_of_copies(rank(), x.data, x.size);
    shared.mean_of_slices<Real>(rank(), x.size);
    shared.exit_barrier(rank());
  }

  /// Same, between GPUs or on one.
  template <class Real, Device D>
    requires GpuStream<typename D::stream>
  void mean(span_on<Real, D> x, typename D::stream s) const {
    if (size() == 1) return;
    s.finish();
    detail::comm::shared_mean& shared = context_.world().mean_of(context_.number());
    shared.publish_pointer(rank(), x.data, x.size);
    context_.enter_barrier(shared, bytes(x).size);
    const detail::comm::barrier_guard guard{shared, rank()};
    shared.mean_of_gpu_slices<Real>(rank(), x.size, s);
  }

  /// This rank's numbers of n: whole units of 64, as many as any other rank's or one more or less.
  [[nodiscard]] detail::comm::number_range own_range(std::size_t n) const {
    return detail::comm::balanced_range(n, rank(), size());
  }
  /// This rank's range <- its mean, with the bits of mean(); the rest stays.
  template <class Real, Device D>
    requires(D::host_memory || GpuStream<typename D::stream>)
  void reduce_scatter_mean(span_on<Real, D> x, typename D::stream s) const {
    if (size() == 1) return;
    with_vectors(x, "a reduce-scatter", s, [&](const detail::comm::shared_mean& shared) {
      shared.mean_of_range(rank(), own_range(x.size), x.data, s);
    });
  }
  /// x <- every rank's range of it.
  template <class Real, Device D>
    requires(D::host_memory || GpuStream<typename D::stream>)
  void all_gather(span_on<Real, D> x, typename D::stream s) const {
    if (size() == 1) return;
    with_vectors(x, "an all-gather", s, [&](const detail::comm::shared_mean& shared) {
      for (int k = 0; k < size(); ++k) {
        const detail::comm::number_range r = detail::comm::balanced_range(x.size, k, size());
        if (k != rank()) shared.copy_range(rank(), k, r, x.data, s);
      }
    });
  }

  /// Ends the run: this cause is thrown on every rank that waits now or later.
  [[gnu::cold]] void abort(const char* why) const { context_.world().fail(rank(), why); }

 private:
  explicit threads(detail::comm::thread_context context) : context_(std::move(context)) {}

  // f(what is shared) between two barriers, while every rank's x may be read.
  template <class Real, Device D, class F>
  void with_vectors(span_on<Real, D> x, const char* purpose, typename D::stream s,
                    const F& f) const {
    if constexpr (!D::host_memory) s.finish();
    detail::comm::shared_mean& shared = context_.world().mean_of(context_.number());
    shared.publish_pointer(rank(), x.data, x.size);
    context_.enter_barrier(shared, bytes(x).size, purpose);
    const detail::comm::barrier_guard guard{shared, rank()};
    f(shared);
    if constexpr (!D::host_memory) s.finish();  // no rank may continue before its copies have ended
  }

  // What the threads of one launch share.
  template <class F>
  struct team {
    team(const F& function, int count, options given)
        : f(function),
          ranks(count),
          o(given),
          world(detail::core::counted_ptr<detail::comm::thread_world>::make(
              ranks, detail::comm::checked_deadline(o.deadline, "threads::options{.deadline}"))),
          ended(ranks) {}

    // As the next rank that no other thread has taken.
    void run_next() {
      const int rank = next_rank++;
      const cpu::worker_limit cores(workers);
      const detail::device::local_rank_scope gpu(
          detail::device::local_rank::of_thread(outer, rank, ranks, o.share_gpus,
                                                "threads::options"),
          detail::device::local_rank_scope::thread);
      try {
        f(threads{detail::comm::thread_context(world, rank, detail::comm::reducer_context)});
      } catch (const std::exception& e) {
        world->fail(rank, e.what());
      } catch (...) {
        world->fail(rank, "threw something that is not a std::exception");
      }
      world->leave(rank);
      ended.arrive(rank);
    }

    const F& f;
    const int ranks;
    const options o;
    const detail::core::counted_ptr<detail::comm::thread_world> world;
    detail::comm::exit_latch ended;
    const std::optional<detail::device::local_rank> outer =
        detail::device::local_rank_scope::current();
    const int workers = std::max(1, detail::core::core_count() / ranks);
    detail::core::atomic<int> next_rank{0};
  };

  // consume_functions of transfer
  static void copy_message(std::byte* to, const std::byte* from, std::size_t size, const void*) {
    std::memcpy(to, from, size);
  }
  template <GpuStream S>
  static void copy_message_on_gpu(std::byte* to, const std::byte* from, std::size_t size,
                                  const void* stream) {
    const S& s = *static_cast<const S*>(stream);
    s.copy(to, from, size);
    s.finish();
  }
  template <class Real>
  static void add_message(std::byte* to, const std::byte* from, std::size_t size, const void*) {
    add(size / sizeof(Real), reinterpret_cast<const Real*>(from), reinterpret_cast<Real*>(to),
        cpu::stream{});
  }

  detail::comm::thread_context context_;
};

}  // namespace cordee::inline CORDEE_ABI
