// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concepts: a minimal one, and that one without each requirement.
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/delayed_comm.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using support::delayed_comm;

namespace {

/// A minimal transport.
template <class Self>
struct minimal_of {
  static constexpr bool blocks_host = true;
  int rank() const { return 0; }
  int size() const { return 1; }
  Self duplicate(int) const { return {}; }
  template <class D>
  void exchange(std::span<const send_op<D>>, std::span<const recv_op<D>>,
                typename D::stream) const {}
};
struct minimal : minimal_of<minimal> {};

struct without_blocks_host : minimal_of<without_blocks_host> {
 private:
  static constexpr bool blocks_host = true;
};
struct unsigned_rank : minimal_of<unsigned_rank> {
  std::size_t rank() const { return 0; }
};
struct duplicate_of_another_type : minimal_of<minimal> {};
struct without_size : minimal_of<without_size> {
 private:
  int size() const;
};
struct exchange_with_result : minimal_of<exchange_with_result> {
  template <class D>
  bool exchange(std::span<const send_op<D>>, std::span<const recv_op<D>>,
                typename D::stream) const {
    return true;
  }
};
struct nonconst_exchange : minimal_of<nonconst_exchange> {
  template <class D>
  void exchange(std::span<const send_op<D>>, std::span<const recv_op<D>>, typename D::stream) {}
};
struct adding_floats : minimal_of<adding_floats> {
  template <std::same_as<float> Real, class D>
  void exchange_add(std::span<const send_op<D>>, std::span<const recv_op<D>>,
                    typename D::stream) const {}
};
struct abortable : minimal_of<abortable> {
  std::string* cause = nullptr;
  void abort(const char* why) const { *cause = why; }
};

}  // namespace

static_assert(single_rank<self_comm> && !single_rank<threads> && !single_rank<minimal>);
static_assert(TransportOn<minimal, cpu> && !TransportOn<minimal, int>);
static_assert(!TransportOn<without_blocks_host, cpu> && !TransportOn<without_size, cpu>);
static_assert(!TransportOn<unsigned_rank, cpu> && !TransportOn<duplicate_of_another_type, cpu>);
static_assert(!TransportOn<exchange_with_result, cpu> && !TransportOn<nonconst_exchange, cpu>);
static_assert(FusedAddOn<adding_floats, float, cpu> && !FusedAddOn<adding_floats, double, cpu> &&
              !FusedAddOn<minimal, float, cpu>);
static_assert(FusedAddOn<threads, float, cpu> && FusedAddOn<threads, double, cpu> &&
              !FusedAddOn<delayed_comm<threads>, float, cpu>);
static_assert(Abortable<abortable> && Abortable<threads> && !Abortable<minimal>);

TEST_CASE("transport: abort has an effect where the transport is abortable") {
  std::string cause;
  abortable comm;
  comm.cause = &cause;
  abort(comm, "the sensor fell off");
  CHECK(cause == "the sensor fell off");
  abort(minimal{}, "has no effect");
  CHECK(cause == "the sensor fell off");
}

TEST_CASE("transport: there are four contexts with distinct numbers") {
  const int contexts[] = {reducer_context, agreement_context, request_context, reply_context};
  for (int i = 0; i < 4; ++i) {
    CHECK(contexts[i] == i);
    CHECK(contexts[i] < context_count);
  }
}

TEST_CASE("transport: a peer beyond the ranks is a usage error with both numbers") {
  for (const int peer : {-1, 3}) {
    std::string message;
    try {
      detail::comm::expects_peer("a communicator", peer, 3);
    } catch (const usage_error& e) {
      message = e.what();
    }
    CHECK(message ==
          concat("a communicator: no such peer: rank ", peer, ", where ranks are 0 to 2"));
  }
  detail::comm::expects_peer("a communicator", 2, 3);
}
