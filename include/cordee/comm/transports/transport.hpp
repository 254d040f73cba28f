// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Point-to-point transfers between ranks: the concepts of a transport.
//
//   struct my_transport {                     // a copyable handle of one rank; all functions const
//     member                  type            meaning
//     rank(), size()          int             this rank, and the number of ranks
//     duplicate(k)            my_transport    the same ranks on context k
//     exchange(out, in, s)    void            sends and receives of spans, all at once
//     blocks_host             bool            whether exchange blocks the calling thread
//
//     optional member         default         meaning
//     exchange_add<Real>(out, in, s)    a copy, then a sum   adds what arrives (FusedAddOn)
//     mean(x, s)              none            an exact mean of its own (NativeMeanOn), for `native`
//     own_range(n), reduce_scatter_mean(x, s), all_gather(x, s)
//                             none            the halves of that mean (NativeHalvesOn), for
//                                             `sharded{native}`
//     enqueue_mean(x, s), enqueue_sum(x, s), await_enqueued(pending)
//                             none            that mean, and sums of doubles, as work of a stream,
//                                             and how the host waits for it (EnqueuedMeanOn)
//     allocate_registered(device, bytes)      memory for what its mean replaces in place
//                             the device's    (AllocatesRegisteredOn)
//     concurrent_contexts     true            whether two threads may use two contexts at once
//     bucket_bytes            0               std::size_t: the shortest message near the full rate
//     abort(why)              the deadline    ends the run on every rank (Abortable)
//     probe_any(expected)     none            any source (AnySource), for an asynchronous `server`
//     start_task(f), task     a thread        runs f() beside the caller (StartsTasks)
//     now(), record(), await(event), event    real time   clocks of tasks (HasVirtualTime)
//     world_rank(k)           k               rank k's number in the whole run, of a subgroup
//   };
//
// With a constexpr static size() of 1, code for exchanges is left out (single_rank). One line tests
// a transport: CHECK(transport_laws(launch) == "").
//
// `exchange` posts a whole batch of sends and receives at once (as between ncclGroupStart and
// ncclGroupEnd), so two blocking sends cannot deadlock. Collective algorithms are in the reducers.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>

#include <cordee/comm/transports/number_range.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/core/steady_time.hpp>
#include <cordee/core/thread.hpp>

namespace cordee::inline CORDEE_ABI {

/// A message that an exchange sends.
template <Device D>
struct send_op {
  int peer;                           ///< The rank that receives it.
  span_on<const std::byte, D> bytes;  ///< Unchanged until the exchange has ended.
};
/// A message that an exchange receives.
template <Device D>
struct recv_op {
  int peer;                     ///< The rank that sends it.
  span_on<std::byte, D> bytes;  ///< Receives the message, which must have this length.
};

/// A communicator: a copyable handle of one rank. Optional members are at the header's top.
///   exchange      returns (or, on a stream, completes) when all receives have arrived and the
///                 memory of all sends may be reused, whether or not a peer has consumed them yet.
///                 Cannot deadlock, whatever the order of the lists; messages between a pair keep
///                 their order within a context; a message whose size differs from the receiver's
///                 is an error; a rank may send to itself.
///   duplicate(k)  the same ranks on context k: an independent ordered channel. Several threads of
///                 a rank may use different contexts at once, unless concurrent_contexts is false.
///   blocks_host   whether exchange blocks the calling thread; then the courier's thread calls it.
///                 Where time is virtual (HasVirtualTime) the courier is a task of the rank.
template <class T, class D>
concept TransportOn = std::copyable<T> && Device<D> &&
                      requires(const T t, std::span<const send_op<D>> out,
                               std::span<const recv_op<D>> in, typename D::stream s) {
                        { t.rank() } -> std::same_as<int>;
                        { t.size() } -> std::same_as<int>;
                        { t.duplicate(0) } -> std::same_as<T>;
                        { t.exchange(out, in, s) } -> std::same_as<void>;
                        { T::blocks_host } -> std::convertible_to<bool>;
                      };

namespace detail::comm {

/// exchange_add adds what arrives to the receive buffers, at memory speed; it counts as one
/// message.
template <class T, class Real, class D>
concept FusedAddOn =
    TransportOn<T, D> && requires(const T t, std::span<const send_op<D>> out,
                                  std::span<const recv_op<D>> in, typename D::stream s) {
      { t.template exchange_add<Real>(out, in, s) } -> std::same_as<void>;
    };

/// The transport computes an exact mean itself, with the same bits on every rank (ncclAllReduce,
/// shared memory); all ranks call it with the same length.
template <class T, class Real, class D>
concept NativeMeanOn =
    TransportOn<T, D> && requires(const T t, span_on<Real, D> x, typename D::stream s) {
      { t.mean(x, s) } -> std::same_as<void>;
    };

/// The transport has a range of each message of n numbers for every rank: of whole units where n
/// is, disjoint, and all of it together.
template <class T>
concept HasOwnRange = requires(const T t, std::size_t n) {
  { t.own_range(n) } -> std::same_as<number_range>;
};

/// The halves of that mean, in place (ncclReduceScatter, ncclAllGather): reduce_scatter_mean leaves
/// this rank the mean of its range, and any numbers elsewhere; all_gather leaves every rank each
/// rank's range. All ranks call both with the same lengths.
template <class T, class Real, class D>
concept NativeHalvesOn = NativeMeanOn<T, Real, D> && HasOwnRange<T> &&
                         requires(const T t, span_on<Real, D> x, typename D::stream s) {
                           { t.reduce_scatter_mean(x, s) } -> std::same_as<void>;
                           { t.all_gather(x, s) } -> std::same_as<void>;
                         };

/// That mean, and sums of doubles, as work of a stream, which may be captured in a graph: to
/// enqueue them does not wait for the device. await_enqueued(pending) is how the host then waits
/// for the device: it blocks until pending.is_complete(), and throws where an operation, a peer or
/// the deadline fails.
template <class T, class Real, class D>
concept EnqueuedMeanOn =
    NativeMeanOn<T, Real, D> &&
    requires(const T t, span_on<Real, D> x, span_on<double, D> sums, typename D::stream s) {
      { t.enqueue_mean(x, s) } -> std::same_as<void>;
      { t.enqueue_sum(sums, s) } -> std::same_as<void>;
    };

/// allocate_registered(device, bytes) returns memory of the device, of undefined content, for what
/// the transport's mean replaces in place again and again, at the same offset on every rank; null
/// where the device's own does as well. What is returned, a smart pointer, is destroyed when
/// nothing uses the memory any more.
template <class T, class D>
concept AllocatesRegisteredOn =
    TransportOn<T, D> && requires(const T t, const D& device, std::size_t n) {
      { t.allocate_registered(device, n).get() } -> std::same_as<void*>;
    };

/// T::bucket_bytes: the length of messages from which the transport is near its full rate, where it
/// is longer than the device's default (trainer_options::bucket_bytes); else 0.
template <class T>
consteval std::size_t bucket_bytes_of() {
  if constexpr (requires { T::bucket_bytes; })
    return T::bucket_bytes;
  else
    return 0;
}

/// T::concurrent_contexts: whether threads of a rank may use different contexts at once.
template <class T>
consteval bool has_concurrent_contexts() {
  if constexpr (requires { T::concurrent_contexts; })
    return T::concurrent_contexts;
  else
    return true;
}

/// abort(why) ends the run on every rank, with `why` as the cause.
template <class T>
concept Abortable = requires(const T t, const char* why) { t.abort(why); };

/// Aborts the run, where the transport can.
template <class T>
void abort(const T& comm, const char* why) {
  if constexpr (Abortable<T>) comm.abort(why);
}

/// f(); if it throws, aborts the run with the exception's text and rethrows.
template <class T, class F>
auto abort_peers_on_throw(const T& comm, const F& f) {
  if constexpr (Abortable<T>) {
    try {
      return f();
    } catch (const std::exception& e) {
      comm.abort(e.what());
      throw;
    }
  } else {
    return f();
  }
}

/// Whether every communicator of the type has one rank: what exchanges, and the errors of
/// exchanges, need not be compiled then.
template <class T>
inline constexpr bool single_rank = requires { requires T::size() == 1; };

/// Receives from any source, as MPI_Probe with MPI_ANY_SOURCE does. probe_any blocks until a
/// message is pending on the request context and returns its sender; it is received by an exchange
/// with that rank. Senders are served in the order of arrival, as far as the transport provides it.
/// Called by one thread of a rank. A rank of `expected` that leaves, or of which none sends within
/// the deadline, is an error that names it; while `expected` is empty there is no deadline.
template <class T>
concept AnySource = requires(const T t, std::span<const int> expected) {
  { t.probe_any(expected) } -> std::same_as<int>;
};

/// start_task(f) runs f() beside the caller, on this rank, once; f may be a function object that
/// can only be moved, and its call need not be const. join() of what it returns, a T::task, once,
/// blocks until f has ended. Tasks have the interface of std::thread, but may be joinable() after
/// join(). For other communicators a thread runs f.
template <class T>
concept StartsTasks = requires(const T t, void (*f)()) {
  { t.start_task(f) } -> std::same_as<typename T::task>;
};

/// Each task of a rank has a clock of its own: now() is the caller's in seconds, record() an event
/// at that time, await(event) lets the caller continue no earlier.
template <class T>
concept HasVirtualTime = StartsTasks<T> && requires(const T t, const typename T::event e) {
  { t.now() } -> std::same_as<double>;
  { t.record() } -> std::same_as<typename T::event>;
  { t.await(e) } -> std::same_as<void>;
};

/// The caller's time in seconds, from any origin.
template <class T>
double seconds_now(const T& comm) {
  if constexpr (HasVirtualTime<T>)
    return comm.now();
  else
    return 1e-9 * static_cast<double>(detail::core::steady_nanoseconds());
}

/// What runs beside the caller on one rank: a thread, or a task of a communicator that has its own.
template <class T>
struct background {
  using type = core::thread;
};
template <StartsTasks T>
struct background<T> {
  using type = typename T::task;
};

/// The rank in the whole run of a communicator's rank k: a subgroup numbers its ranks anew.
template <class T>
int world_rank(const T& comm, int k) {
  if constexpr (requires { comm.world_rank(k); })
    return comm.world_rank(k);
  else
    return k;
}

/// "rank 1 or rank 3 to send on context 2"
[[nodiscard, gnu::cold]] inline std::string describe_sources(std::span<const int> expected,
                                                             int context) {
  std::string text = expected.empty() ? "any rank" : "";
  for (const int peer : expected) text += concat(text.empty() ? "" : " or ", "rank ", peer);
  return concat(text, " to send on context ", context);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_no_such_peer(const char* comm, int peer,
                                                                      int ranks) {
  throw usage_error(
      concat(comm, ": no such peer: rank ", peer, ", where ranks are 0 to ", ranks - 1));
}
constexpr void expects_peer(const char* comm, int peer, int ranks) {
  if (peer < 0 || peer >= ranks) throw_no_such_peer(comm, peer, ranks);
}

/// What each context is for: the reducer's messages; small exact reductions and broadcasts
/// (comm/reducers/collectives.hpp); a parameter server's requests and its replies. The numbers are
/// fixed, so that rank 0 may serve and train at once.
inline constexpr int reducer_context = 0, agreement_context = 1, request_context = 2,
                     reply_context = 3;
inline constexpr int context_count = 4;

}  // namespace detail::comm

}  // namespace cordee::inline CORDEE_ABI
