// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/testing/reducer_laws.hpp>

using namespace cordee;

// Reducers that violate one law each.
namespace {

template <class Communicator, class Twist>
struct twisted {
  using communicator_type = Communicator;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Communicator comm;
  Twist twist;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return ring{comm}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    ring{comm}.mix(m, info, s);
    twist(comm.rank(), comm.size(), m.values.data, m.values.size, m.scratch);
  }
};
template <class Communicator, class Twist>
twisted(Communicator, Twist) -> twisted<Communicator, Twist>;

template <class Twist>
std::string violations(Twist twist) {
  return reducer_laws([twist](auto comm) { return twisted{comm, twist}; }, {.ranks = {3}});
}
bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// A ring from which one rank stays away.
template <class Communicator>
struct deserted {
  using communicator_type = Communicator;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Communicator comm;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return ring{comm}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    if (comm.rank() != 1) ring{comm}.mix(m, info, s);
  }
};
template <class Communicator>
deserted(Communicator) -> deserted<Communicator>;

/// A ring whose mean differs between ranks when a message is cut into so many rounds.
template <class Communicator>
struct lame : exact_method<lame<Communicator>, Communicator> {
  int rounds;

  static constexpr bool can_pipeline = true;
  lame(Communicator c, int r) : exact_method<lame, Communicator>{{c}}, rounds(r) {}

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return ring{this->comm}.template scratch<Real>(n);
  }
  [[nodiscard]] int chunks(std::size_t n) const { return ring{this->comm}.chunks(n); }
  template <class Wire>
  void run(Wire w) const {
    ring{this->comm}.run(w);
    const int p = this->comm.size(), last = w.count() - 1;
    if (w.count() == rounds * p && this->comm.rank() == 0) w.average({last, last + 1}, 2);
  }
};

}  // namespace

TEST_CASE("reducer_laws: a stall is blamed on the rank that stays away, whichever waited longest") {
  CHECK(contains(reducer_laws([](auto comm) { return deserted{comm}; },
                              {.ranks = {3}, .deadline = std::chrono::milliseconds(1000)}),
                 "; rank 1 returned from mix while rank 0, rank 2 waited in it"));
}

TEST_CASE("reducer_laws: each violation is reported") {
  CHECK(violations([](int, int, auto*, std::size_t, auto) {}) == "");
  CHECK(contains(violations([](int, int p, auto* x, std::size_t n, auto) {
                   for (std::size_t i = 0; i < n; ++i) x[i] *= static_cast<float>(p);
                 }),
                 "the mean of integers is"));
  CHECK(contains(violations([](int r, int, auto* x, std::size_t n, auto) {
                   if (r == 2 && n == 997) x[996] *= 1.000001f;
                 }),
                 "rank 2 has other bits than rank 0 (3 ranks, 997 numbers of 4 bytes)"));
  CHECK(contains(violations([](int, int, auto* x, std::size_t n, auto) {
                   for (std::size_t i = 0; i < n; ++i)
                     if (std::isnan(x[i])) x[i] = 0;
                 }),
                 "has lost the NaN of rank"));
  CHECK(contains(violations([](int, int, auto* x, std::size_t n, auto) { x[n] = 1; }),
                 "wrote outside of the message"));
  CHECK(contains(violations([](int, int, auto*, std::size_t, auto scratch) {
                   scratch.data[scratch.size] = std::byte{0};
                 }),
                 "wrote outside of the message"));
  CHECK(contains(violations([](int r, int, auto*, std::size_t n, auto) {
                   if (r == 1 && n == 997) throw std::runtime_error("thrown by rank 1");
                 }),
                 "failed over 3 ranks: rank 1: thrown by rank 1"));
}

TEST_CASE("reducer_laws: a wrong number of messages or bytes is reported") {
  const auto ring_of = [](auto comm) { return ring{comm}; };
  CHECK(contains(reducer_laws(ring_of, {.ranks = {3}, .messages = [](int, int) { return 5u; }}),
                 "sent 4 messages, not 5"));
  CHECK(contains(
      reducer_laws(ring_of, {.ranks = {3}, .numbers = [](int, std::size_t) { return 1u; }}),
      "all ranks sent 16 bytes, not 4"));
}

TEST_CASE("reducer_laws: methods that can pipeline are tested in two rounds and in three") {
  const auto violations_in = [](int rounds, int ranks) {
    return reducer_laws([rounds](auto comm) { return lame{comm, rounds}; }, {.ranks = {ranks}});
  };
  CHECK(contains(violations_in(2, 2),
                 "rank 1 has other bits than rank 0 (2 ranks, 65539 numbers of 4 bytes)"));
  CHECK(contains(violations_in(3, 5),
                 "rank 1 has other bits than rank 0 (5 ranks, 140003 numbers of 4 bytes)"));
  CHECK(violations_in(4, 3) == "");
}
