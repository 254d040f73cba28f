// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/transport_laws.hpp>

using namespace cordee;
using std::chrono::milliseconds;

namespace {

// Launches threads with wrapped communicators.
template <class Wrap>
auto wrapped(const Wrap& wrap) {
  return [wrap](int ranks, const auto& f, milliseconds deadline) {
    threads::launch(ranks, [&](threads comm) { f(wrap(comm)); }, {.deadline = deadline});
  };
}
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("transport_laws: threads keep them") {
  CHECK(transport_laws(wrapped([](threads comm) { return comm; })) == "");
}

TEST_CASE("transport_laws: a communicator with exchange() alone keeps them") {
  CHECK(transport_laws([](int ranks, const auto& f, milliseconds deadline) {
          std::vector<traffic> sent(static_cast<std::size_t>(ranks));
          threads::launch(
              ranks,
              [&](threads comm) {
                f(counting_communicator{comm, &sent[static_cast<std::size_t>(comm.rank())]});
              },
              {.deadline = deadline});
        }) == "");
}

TEST_CASE("transport_laws: self_comm keeps those of one rank") {
  CHECK(transport_laws([](int, const auto& f, milliseconds) { f(self_comm{}); }, {.ranks = {1}}) ==
        "");
}

// Communicators that violate one law each.
namespace {

template <class Fault>
struct faulty {
  static constexpr bool blocks_host = true;
  threads comm;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  faulty duplicate(int k) const { return {Fault::one_context ? comm : comm.duplicate(k)}; }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    std::vector<send_op<D>> changed(out.begin(), out.end());
    Fault::exchange(changed);
    comm.exchange(std::span<const send_op<D>>(changed), in, s);
  }
  template <class Real, Device D>
  void exchange_add(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                    typename D::stream s) const {
    comm.template exchange_add<Real>(out, in, s);
    if (Fault::wrong_sum)
      for (const auto& m : in)
        if (m.bytes.size > 0) m.bytes.data[0] ^= std::byte{1};
  }
  template <class Real, Device D>
  void mean(span_on<Real, D> x, typename D::stream s) const {
    comm.mean(x, s);
    if (Fault::wrong_mean && x.size > 0 && comm.rank() == comm.size() - 1) {
      auto* low = reinterpret_cast<std::byte*>(x.data);
      low[0] ^= std::byte{1};
    }
  }
};
struct sound {
  static constexpr bool one_context = false, wrong_sum = false, wrong_mean = false;
  static void exchange(std::vector<send_op<cpu>>&) {}
};
struct out_of_order : sound {
  static void exchange(std::vector<send_op<cpu>>& out) {
    if (out.size() == 3 && out[0].peer == out[2].peer) std::swap(out[0], out[1]);
  }
};
struct shared_context : sound {
  static constexpr bool one_context = true;
};
struct inexact_mean : sound {
  static constexpr bool wrong_mean = true;
};
struct inexact_add : sound {
  static constexpr bool wrong_sum = true;
};
template <class Fault>
std::string violations_of() {
  return transport_laws(wrapped([](threads comm) { return faulty<Fault>{comm}; }),
                        {.ranks = {3}, .impatience = milliseconds(0)});
}

}  // namespace

TEST_CASE("transport_laws: each violation is reported") {
  CHECK(violations_of<sound>() == "");
  CHECK(contains(violations_of<out_of_order>(), "in another order"));
  CHECK(contains(violations_of<shared_context>(), "received in another"));
  CHECK(contains(violations_of<inexact_add>(), "exchange_add of 1 numbers has other bits"));
  CHECK(contains(violations_of<inexact_mean>(),
                 "rank 2: the native mean of 1 numbers has other bits"));
}
