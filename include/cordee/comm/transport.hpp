// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes between ranks: one verb, `exchange`, and what a transport may offer beyond it.
//
// A whole batch of sends and receives is handed over at once, so the group guard of NCCL, and the
// deadlock of two blocking sends, cannot be written. Algorithms live above, in reducers.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>

#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {

template <Device D>
struct to {
  int peer;
  span_on<const std::byte, D> bytes;
};
template <Device D>
struct from {
  int peer;
  span_on<std::byte, D> bytes;
};

/// A link is a copyable handle of one rank. `exchange` returns (or, on a stream, is passed) when
/// what it hears is there and the memory of what it told is free again, whether or not a peer has
/// read it by then; it cannot deadlock, whatever the order of the lists; messages between a pair
/// keep their order within a lane; a message of another size than the receiver expects is an error;
/// one may write to oneself. `lane(k)` is an independent ordered channel between the same ranks: 0
/// for the reducer, 1 for `agree`, 2 and 3 for a server. Several threads of a rank may use
/// different lanes at once.
template <class T, class D>
concept TransportOn = std::copyable<T> && Device<D> &&
                      requires(const T t, std::span<const to<D>> out, std::span<const from<D>> in,
                               typename D::stream s) {
                        { t.rank() } -> std::same_as<int>;
                        { t.size() } -> std::same_as<int>;
                        { t.lane(0) } -> std::same_as<T>;
                        { t.exchange(out, in, s) } -> std::same_as<void>;
                        {
                          T::blocks_host
                        } -> std::convertible_to<bool>;  // then the courier's thread calls it
                      };

/// What arrives is added to what is there, at memory speed; counts as one message.
template <class T, class Real, class D>
concept AddsOn = TransportOn<T, D> && requires(const T t, std::span<const to<D>> out,
                                               std::span<const from<D>> in, typename D::stream s) {
  { t.template exchange_add<Real>(out, in, s) } -> std::same_as<void>;
};

/// The transport means by itself, exactly, with the same bits on every rank (MPI_Allreduce,
/// ncclAllReduce, one shot over shared memory); all ranks call it with as many numbers.
template <class T, class Real, class D>
concept NativeMeanOn =
    TransportOn<T, D> && requires(const T t, span_on<Real, D> x, typename D::stream s) {
      { t.mean(x, s) } -> std::same_as<void>;
    };

/// A rank that fails on its own says why, so that its peers give up at once with the cause.
template <class T>
concept Abandons = requires(const T t, const char* why) { t.abandon(why); };

/// Tells the peers of a link, where the transport can.
template <class T>
void abandon(const T& link, const char* why) {
  if constexpr (Abandons<T>) link.abandon(why);
}

/// f(); if it throws, the peers are told why before the exception goes on.
template <class T, class F>
auto or_abandon(const T& link, const F& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    abandon(link, e.what());
    throw;
  }
}

/// Hears whoever comes first. `next` is the rank whose message is the next to be heard on the
/// request lane, by an exchange with that rank; first come, first served, as far as the transport
/// can tell, and nobody waits for ever. One thread of a rank calls it. Ranks that are `due` are
/// waited for within the deadline, and are named where they leave or do not come; while none is, it
/// takes as long as it takes.
template <class T>
concept AnySource = requires(const T t, std::span<const int> due) {
  { t.next(due) } -> std::same_as<int>;
};

/// The number that rank k of a link has in the run: groups number theirs anew.
template <class T>
int rank_in_run(const T& link, int k) {
  if constexpr (requires { link.in_run(k); })
    return link.in_run(k);
  else
    return k;
}

namespace detail {
/// "rank 1 or rank 3 to send on lane 2"
[[nodiscard, gnu::cold]] inline std::string anybody_of(std::span<const int> due, int lane) {
  std::string all = due.empty() ? "anybody" : "";
  for (const int peer : due) all += text(all.empty() ? "" : " or ", "rank ", peer);
  return text(all, " to send on lane ", lane);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void no_such_peer(const char* link, int peer,
                                                                int ranks) {
  throw misuse(text(link, ": no such peer: rank ", peer, ", where ranks are 0 to ", ranks - 1));
}
constexpr void expects_peer(const char* link, int peer, int ranks) {
  if (peer < 0 || peer >= ranks) no_such_peer(link, peer, ranks);
}
}  // namespace detail

/// What each lane is for. Numbers are absolute, so that rank 0 may serve and train at once.
inline constexpr int reducer_lane = 0, agree_lane = 1, request_lane = 2, answer_lane = 3;
inline constexpr int lane_count = 4;

}  // namespace cordee::inline CORDEE_ABI
