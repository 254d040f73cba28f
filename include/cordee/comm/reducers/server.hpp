// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A parameter server: rank 0 holds the weights, and also trains.
//
//   synchronous     x <- (x_0 + x_1 + ... + x_{p-1}) / p, added and divided on rank 0
//
//   asynchronous    push      d = x - y          how far this rank has moved from y, what it last
//                                                received
//                   server    w <- w + mean of c pushes d / s,    v <- v + 1
//                   pull      x <- y <- w        s = 1, or max(1, v - v_w)
//
// The synchronous server is an exact mean with 2(p-1) messages of n numbers, all through rank 0: a
// star, useful for few ranks. With the asynchronous one no rank waits for another, unless there is
// a staleness_bound, and it offers loose agreement: the optimizer steps locally, by local_steps
// with a period of 1, and the displacement is pushed. p ranks whose pushes are applied singly move
// p times as far as their mean; n-softsync (Zhang et al. 2015) averages floor(p / n) pushes. It
// needs a transport that can receive from any source: threads, mpi, zeromq, simulated.
#pragma once

#include <string>
#include <vector>

#include <cordee/comm/reducers/encoded_wire.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/server/service.hpp>
#include <cordee/comm/reducers/wire.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/ops/cpu/elementwise.hpp>

namespace cordee::inline CORDEE_ABI {

/// Mode of a server: every rank waits for the mean of all.
struct synchronous {};

template <class Communicator, class Mode = synchronous>
struct server;
template <class Communicator>
server(Communicator) -> server<Communicator>;
template <class Communicator, class Mode>
server(Communicator, Mode) -> server<Communicator, Mode>;

/// Exact mean, computed on rank 0.
template <class Communicator>
struct server<Communicator, synchronous> {
  using communicator_type = Communicator;  ///< See ReducerOn.
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;  ///< See ReducerOn.
  static constexpr int slots = 0;         ///< See ReducerOn.

  Communicator comm;   ///< The ranks that average.
  synchronous mode{};  ///< Selects this server.

  /// Scratch for a worker's vector, unless the transport has a fused add.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return n * sizeof(Real);
  }
  /// See exact_method.
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return detail::comm::encoded_scratch<P>(n, 1);
  }

  /// Adds in rank order, whatever the order of arrival.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    run(detail::comm::plain_wire<Communicator, Real, D>{comm, m.values, m.scratch, 1, s});
  }
  /// See exact_method.
  template <Precision P, class Real, Device D>
  void mix_as(bucket_view<Real, D, 0> m, span_on<Real, D> lost, const step_info&,
              typename D::stream s) const {
    run(detail::comm::encoded_wire<P, Communicator, Real, D>{comm, m.layout, m.values, m.scratch,
                                                             lost, 1, s});
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("synchronous server on rank 0 of ", comm.size(), ": exact mean");
  }

 private:
  // Adds in the order of ranks, whatever the order of arrival: the same bits in every run.
  template <class Wire>
  void run(Wire w) const {
    const int p = comm.size();
    if (p == 1) return;
    constexpr chunk_range message{0, 1};
    if (comm.rank() == 0) {
      for (int peer = 1; peer < p; ++peer) w.add(no_peer, message, peer, message);
      w.average(message, p);
      for (int peer = 1; peer < p; ++peer) w.pass(peer, message, no_peer, message);
    } else {
      w.add(0, message, no_peer, message);
      w.pass(no_peer, message, 0, message);
    }
    w.flush();
  }
};

/// Copies share one server: a thread of rank 0 serves from initialize() until the last copy on
/// every rank has been destroyed. Meanwhile it uses request_context and reply_context.
template <class Communicator>
struct server<Communicator, asynchronous> {
  static_assert(
      detail::comm::AnySource<Communicator>,
      "server: an asynchronous one receives from any source, which this transport cannot: "
      "use threads, mpi, zeromq or simulated, or server{comm, synchronous{}}");
  using communicator_type = Communicator;                ///< See ReducerOn.
  static constexpr agreement offers = agreement::loose;  ///< No rank waits for another's numbers.
  static constexpr bool lossless = true;                 ///< See ReducerOn.
  static constexpr bool single_message = true;  ///< All numbers of a push have one version.
  static constexpr int slots = 1;               ///< y, the weights that this rank last received.

  /// Makes a server, which initialize() starts.
  /// @throws usage_error for an option outside its range.
  server(Communicator communicator, asynchronous options)
      : comm(communicator),
        mode(options),
        client_(detail::core::counted_ptr<detail::comm::server_client<Communicator>>::make(
            communicator, options)) {}

  Communicator comm;  ///< The ranks that push.
  asynchronous mode;  ///< The options; rank 0's apply.

  /// 0: the server has its own memory for messages.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t) const {
    return 0;
  }

  /// Collective. Copies rank 0's numbers to the server and to every rank.
  template <class Real, Device D>
  void initialize(bucket_view<Real, D, 1> m, typename D::stream s) const {
    transact(detail::comm::request::join, m, s);
  }
  /// Pushes this rank's progress, replaces its numbers by the server's weights, and blocks until
  /// those arrive. On a GPU they are copied through the host.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 1> m, const step_info&, typename D::stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/elementwise.hpp
    using cordee::detail::ops::add, cordee::detail::ops::scale;
    Real* const y = m.slots[0].data;
    scale(m.values.size, Real{-1}, y, s);
    add(m.values.size, static_cast<const Real*>(y), m.values.data, s);
    transact(detail::comm::request::push, m, s);
  }

  /// Rank 0, whose weights this rank holds after mix().
  [[nodiscard]] std::vector<int> sources(const step_info&) const { return {0}; }

  /// On rank 0, after initialize(), returns the server's weights and clock; otherwise an empty
  /// state. No rank may be in mix().
  template <class Real>
  [[nodiscard]] reducer_state state() const {
    return client_->template state<Real>();
  }
  /// Restores `state` on rank 0; does nothing on other ranks. Call after initialize(), as a
  /// trainer's constructor does. No rank may be in mix().
  /// @throws error for a state of another model or number of ranks; usage_error before
  /// initialize(), unless the state is empty.
  template <class Real>
  void restore(const reducer_state& state) const {
    client_->template restore<Real>(state);
  }

  /// On rank 0: element k is the number of pushes that were k versions old when they arrived.
  [[nodiscard]] std::vector<std::int64_t> staleness() const { return client_->staleness(); }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    const int batch = detail::comm::staleness_clock(comm.size(), mode).batch();
    return concat(
        "asynchronous server on rank 0 of ", comm.size(), ": an update ",
        batch == 1 ? std::string("each push") : concat("every ", batch, " pushes"),
        mode.staleness_aware ? " divided by its staleness" : "",
        mode.staleness_bound == asynchronous::unlimited
            ? std::string()
            : concat(", no rank more than ", mode.staleness_bound, " steps ahead of the slowest"));
  }

 private:
  template <class Real, Device D>
  void transact(detail::comm::request::kind kind, bucket_view<Real, D, 1> m,
                [[maybe_unused]] typename D::stream s) const {
    if constexpr (D::host_memory) {
      client_->transact(kind, std::span<Real>(m.values));
      std::copy(m.values.begin(), m.values.end(), m.slots[0].begin());
    } else {
      std::vector<Real> host(m.values.size);
      const std::size_t size = host.size() * sizeof(Real);
      s.copy(host.data(), m.values.data, size);
      s.finish();
      client_->transact(kind, std::span<Real>(host));
      s.copy(m.values.data, host.data(), size);
      s.copy(m.slots[0].data, host.data(), size);
      s.finish();
    }
  }

  detail::core::counted_ptr<detail::comm::server_client<Communicator>> client_;
};

}  // namespace cordee::inline CORDEE_ABI
