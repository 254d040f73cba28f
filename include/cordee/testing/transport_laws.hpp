// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of a transport, for one of your own, which you launch:
//
//   CHECK(transport_laws([](int ranks, const auto& f, std::chrono::milliseconds deadline) {
//           threads::launch(ranks, f, {.deadline = deadline});
//         }) == "");
//
// Every rank receives from every rank, itself included, whatever the order of the lists; messages
// between a pair keep their order; contexts are independent, two at a time unless
// concurrent_contexts is false; a message of another size than expected is an error; exchange_add
// has the bits of an exchange and an addition; a native mean has the same bits everywhere, and its
// halves divide it among the ranks and gather it (native_mean.hpp); any source is received from
// (any_source.hpp); a rank that waits for one that has thrown, left or
// stopped responding throws an error that names it, within the deadline.
#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/testing/any_source.hpp>
#include <cordee/testing/concurrently.hpp>
#include <cordee/testing/native_mean.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/testing/test_messages.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of transport_laws.
struct transport_law_options {
  /// Numbers of ranks to test.
  std::vector<int> ranks{1, 2, 3, 4, 5, 8};
  /// Deadline of launches that must not reach it.
  std::chrono::milliseconds patience{60'000};
  /// Deadline of the launch in which a rank stops responding; 0: no such launch.
  std::chrono::milliseconds impatience{500};
};

namespace detail::testing {

template <class Communicator>
void check_all_pairs(const Communicator& comm, report& r) {
  const int p = comm.size(), rank = comm.rank();
  for (const std::size_t n : law_lengths) {
    const message own = thirds(rank, n);
    std::vector<message> received(static_cast<std::size_t>(p), message(n, -1));
    std::vector<send_op<cpu>> out;
    std::vector<recv_op<cpu>> in;
    for (int k = 0; k < p; ++k) {
      const int source = p - 1 - k;
      out.push_back(send_to(k, own));
      in.push_back(receive_from(source, received[static_cast<std::size_t>(source)]));
    }
    exchange(comm, out, in);
    for (int peer = 0; peer < p; ++peer)
      r.expect(same_bits(received[static_cast<std::size_t>(peer)], thirds(peer, n)), "rank ", rank,
               " did not receive what rank ", peer, " sent in ", n, " numbers");
  }
}

template <class Communicator>
void check_order_within_pairs(const Communicator& comm, report& r) {
  const int p = comm.size(), rank = comm.rank();
  const message a(3, 1), b(3, 2), c(5, 3);
  for (int k = 0; k < p; ++k) {
    message x(3), y(3), z(5);
    const int peer = (k + p - rank) % p;  // symmetric: rank + peer is k, modulo p
    exchange(comm, {send_to(peer, a), send_to(peer, b), send_to(peer, c)},
             {receive_from(peer, x), receive_from(peer, y), receive_from(peer, z)});
    r.expect(x == a && y == b && z == c, "rank ", rank, " received rank ", peer,
             "'s messages in another order");
  }
}

// Rank 0 sends in context 1 first, rank 1 receives in context 0 first: if they were one context, it
// would receive the other message. Where contexts are not concurrent, every rank uses them in one
// order, in which one context would do as well: then only that both are channels is a law.
template <class Communicator>
void check_contexts(const Communicator& comm, std::size_t n, report& r) {
  constexpr bool concurrent = comm::has_concurrent_contexts<Communicator>();
  if (comm.size() == 1 || comm.rank() > 1) return;
  const message zeros(n, 0), ones(n, 1);
  if (comm.rank() == 1) {
    std::array<message, 2> received{message(n, -1), message(n, -1)};
    const auto receive = [&](int context) {
      message& x = received[static_cast<std::size_t>(context)];
      exchange(comm.duplicate(context), {}, {receive_from(0, x)});
    };
    receive(concurrent ? 0 : 1);
    receive(concurrent ? 1 : 0);
    r.expect(received[0] == zeros && received[1] == ones,
             "what was sent in one context was received in another");
    return;
  }
  std::exception_ptr failure;
  const auto send = [&](int context, const message& m) {
    try {
      exchange(comm.duplicate(context), {send_to(1, m)}, {});
    } catch (...) {
      failure = std::current_exception();
    }
  };
  concurrently(
      comm, [&] { send(1, ones); },
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        send(0, zeros);
      });
  if (failure) std::rethrow_exception(failure);
}

template <class Communicator>
void check_exchange_add(const Communicator& comm, report& r) {
  const int p = comm.size(), rank = comm.rank();
  for (const std::size_t n : law_lengths) {
    const message own = thirds(rank, n);
    message sum(n, 0.1f), expected = sum;
    std::vector<send_op<cpu>> out;
    std::vector<recv_op<cpu>> in;
    for (int peer = 0; peer < p; ++peer) {
      out.push_back(send_to(peer, own));
      in.push_back(receive_from(peer, sum));
    }
    comm.template exchange_add<float>(std::span<const send_op<cpu>>(out),
                                      std::span<const recv_op<cpu>>(in), cpu::stream{});
    for (int peer = 0; peer < p; ++peer) {
      const message x = thirds(peer, n);
      for (std::size_t i = 0; i < n; ++i) expected[i] += x[i];
    }
    r.expect(same_bits(sum, expected), "rank ", rank, ": exchange_add of ", n,
             " numbers has other bits than an exchange and an addition");
  }
}

/// The message of what launch(ranks, f, deadline) threw; empty if it returned.
template <class Launch, class F>
std::string message_thrown(const Launch& launch, int ranks, const F& f,
                           std::chrono::milliseconds deadline) {
  try {
    launch(ranks, f, deadline);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

template <class Launch>
void check_message_sizes(const Launch& launch, int ranks, const transport_law_options& options,
                         report& r) {
  const std::string thrown = message_thrown(
      launch, ranks,
      [](auto comm) {
        const message three(3);
        message four(4);
        const int p = comm.size(), next = (comm.rank() + 1) % p;
        const int previous = (comm.rank() + p - 1) % p;
        exchange(comm, {send_to(next, three)}, {receive_from(previous, four)});
      },
      options.patience);
  r.expect(!thrown.empty(), "a message of another size is no error over ", ranks, " ranks");
}

enum class fault { throws, leaves, stops_responding };

/// The last rank fails while the others wait for it in `wait`.
template <class Launch, class Wait>
void check_failed_rank_is_named(const Launch& launch, int ranks, fault kind,
                                const transport_law_options& options, report& r, const Wait& wait,
                                const char* where) {
  const auto deadline = kind == fault::stops_responding ? options.impatience : options.patience;
  const auto start = std::chrono::steady_clock::now();
  const std::string thrown = message_thrown(
      launch, ranks,
      [&](auto comm) {
        if (comm.rank() != comm.size() - 1) return wait(comm);
        if (kind == fault::throws) throw std::runtime_error("cause of the failure");
        if (kind == fault::stops_responding) std::this_thread::sleep_for(deadline * 3 / 2);
      },
      deadline);
  const std::string name = concat("rank ", ranks - 1);
  r.expect(thrown.find(name) != std::string::npos, "the error does not name ", name,
           ", which failed in ", where, ": \"", thrown, "\"");
  r.expect(kind != fault::throws || thrown.find("cause of the failure") != std::string::npos,
           "the error has lost the cause in ", where, ": \"", thrown, "\"");
  r.expect(std::chrono::steady_clock::now() - start < options.patience,
           "a rank that failed blocked the others for longer than the deadline in ", where);
}

}  // namespace detail::testing

/// Returns the laws violated by the transport whose communicators launch(ranks, f, deadline) passes
/// to f on every rank; empty if there are none. Requires that launch throws what a rank threw.
template <class Launch>
std::string transport_laws(const Launch& launch, const transport_law_options& options = {}) {
  namespace laws = detail::testing;
  laws::report r;
  const auto check_all = [&](auto comm) {
    using communicator_type = decltype(comm);
    static_assert(TransportOn<communicator_type, cpu>,
                  "transport_laws: the communicator does not model TransportOn");
    laws::check_all_pairs(comm, r);
    laws::check_order_within_pairs(comm, r);
    // of messages that transports send without a receiver, and that they do not
    for (const std::size_t n : {50u, 20'000u}) laws::check_contexts(comm, n, r);
    if constexpr (detail::comm::FusedAddOn<communicator_type, float, cpu>)
      laws::check_exchange_add(comm, r);
    if constexpr (detail::comm::NativeMeanOn<communicator_type, float, cpu>)
      laws::check_native_mean(comm, r);
    if constexpr (detail::comm::NativeHalvesOn<communicator_type, float, cpu>)
      laws::check_native_halves(comm, r);
    if constexpr (detail::comm::AnySource<communicator_type>) laws::check_any_source(comm, r);
  };
  const auto receive_from_last = [](auto comm) {
    laws::message x(4);
    laws::exchange(comm, {}, {laws::receive_from(comm.size() - 1, x)});
  };
  const auto mean_or_send_to_last = [](auto comm) {
    if constexpr (detail::comm::NativeMeanOn<decltype(comm), float, cpu>) {
      for (const std::size_t n : {std::size_t{4}, std::size_t{100'000}}) {
        laws::message x(n);
        comm.mean(span_on<float, cpu>{x.data(), n}, cpu::stream{});
      }
    } else {
      laws::message x(4);
      laws::exchange(comm, {laws::send_to(comm.size() - 1, x)}, {});
    }
  };
  const auto gather_or_receive = [&](auto comm) {
    if constexpr (detail::comm::NativeHalvesOn<decltype(comm), float, cpu>) {
      laws::message x(1000);
      const span_on<float, cpu> values{x.data(), x.size()};
      comm.all_gather(values, cpu::stream{});
    } else {
      receive_from_last(comm);
    }
  };
  const auto reduce_scatter_or_receive = [&](auto comm) {
    if constexpr (detail::comm::NativeHalvesOn<decltype(comm), float, cpu>) {
      laws::message x(1000);
      comm.reduce_scatter_mean(span_on<float, cpu>{x.data(), x.size()}, cpu::stream{});
    } else {
      receive_from_last(comm);
    }
  };
  const auto receive_from_any = [&](auto comm) {
    if constexpr (detail::comm::AnySource<decltype(comm)>)
      (void)comm.duplicate(detail::comm::request_context).probe_any(std::array{comm.size() - 1});
    else
      receive_from_last(comm);
  };
  bool stopped = false;  // one number of ranks is enough for that fault, which takes its deadline
  for (const int ranks : options.ranks) {
    const std::string thrown = laws::message_thrown(launch, ranks, check_all, options.patience);
    r.expect(thrown.empty(), "failed over ", ranks, " ranks: ", thrown);
    laws::check_message_sizes(launch, ranks, options, r);
    if (ranks == 1) continue;
    for (const auto kind :
         {laws::fault::throws, laws::fault::leaves, laws::fault::stops_responding}) {
      if (kind == laws::fault::stops_responding &&
          (options.impatience.count() == 0 || std::exchange(stopped, true)))
        continue;
      const auto check = [&](const auto& wait, const char* where) {
        laws::check_failed_rank_is_named(launch, ranks, kind, options, r, wait, where);
      };
      check(receive_from_last, "a receive");
      check(mean_or_send_to_last, "a mean, or a send");
      check(receive_from_any, "a receive from any source");
      if (kind == laws::fault::leaves)
        check(gather_or_receive, "an all-gather, or a receive");
      else
        check(reduce_scatter_or_receive, "a reduce-scatter, or a receive");
    }
  }
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
