// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include <doctest/doctest.h>

#include <cordee/comm/butterfly.hpp>
#include <cordee/comm/halving.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/tree.hpp>
#include <cordee/testing/reducer_laws.hpp>

using namespace cordee;

namespace {

// Formulas of messages and bytes, counted by hand from the methods' descriptions.
int below(int p) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(p))); }
int halvings(int p) { return std::bit_width(static_cast<unsigned>(p)) - 1; }
std::size_t whole(int k) { return static_cast<std::size_t>(k); }

// What a folded pair adds to `steps` messages of the method.
std::size_t folded(int rank, int ranks, int steps) {
  const bool paired = rank < 2 * (ranks - below(ranks));
  return whole(paired ? (rank % 2 == 0 ? 1 : steps + 1) : steps);
}
std::size_t tree_messages(int rank, int ranks) {
  std::size_t children = 0;
  for (int edge = 1; edge < ranks && (rank & edge) == 0; edge *= 2)
    if (rank + edge < ranks) ++children;
  return children + (rank == 0 ? 0 : 1);
}

}  // namespace

TEST_CASE("ring keeps the laws: 2(p-1) messages a rank, 2n(p-1) numbers in all") {
  CHECK(reducer_laws([](auto link) { return ring{link}; },
                     {.messages = [](int, int p) { return whole(2 * (p - 1)); },
                      .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
}

TEST_CASE("tree keeps the laws: one message up and one down each of p-1 edges") {
  CHECK(reducer_laws([](auto link) { return tree{link}; },
                     {.messages = tree_messages,
                      .numbers = [](int p, std::size_t n) { return 2 * n * whole(p - 1); }}) == "");
  for (const int p : {2, 3, 4, 5, 8, 9, 16})  // the root sends ceil(log2 p) times
    CHECK(tree_messages(0, p) == whole(halvings(p) + (p == below(p) ? 0 : 1)));
}

TEST_CASE("butterfly keeps the laws: log2 p messages of n, and two more where it is folded") {
  CHECK(reducer_laws([](auto link) { return butterfly{link}; },
                     {.messages = [](int r, int p) { return folded(r, p, halvings(p)); },
                      .numbers =
                          [](int p, std::size_t n) {
                            return n * whole(below(p) * halvings(p) + 2 * (p - below(p)));
                          }}) == "");
}

TEST_CASE("halving keeps the laws: 2 log2 p messages, 2n(p'-1) numbers, and 2n for each fold") {
  CHECK(reducer_laws([](auto link) { return halving{link}; },
                     {.messages = [](int r, int p) { return folded(r, p, 2 * halvings(p)); },
                      .numbers =
                          [](int p, std::size_t n) {
                            return 2 * n * whole(below(p) - 1) + 2 * n * whole(p - below(p));
                          }}) == "");
}

TEST_CASE("native keeps the laws") {
  CHECK(reducer_laws([](auto link) { return native{link}; }) == "");
}

TEST_CASE("halving: no rank sends more than n + 2n(p'-1)/p'") {
  constexpr std::size_t n = 960;  // divisible by every p' below
  for (const auto& [ranks, most] : {std::pair{2, 1.0},
                                    {3, 2.0},
                                    {4, 1.5},
                                    {5, 2.5},
                                    {6, 2.5},
                                    {7, 2.5},
                                    {8, 1.75},
                                    {12, 2.75}}) {
    std::vector<traffic> sent(whole(ranks));
    threads::launch(ranks, [&](threads link) {
      std::vector<float> x(n);
      std::vector<std::byte> scratch(n * sizeof(float));
      halving{counted{link, &sent[whole(link.rank())]}}.mix(
          message<float, cpu, 0>{nullptr, {x.data(), n}, {}, {scratch.data(), scratch.size()}},
          moment{}, cpu::stream{});
    });
    std::size_t bytes = 0;
    for (const traffic& t : sent) bytes = std::max(bytes, t.bytes);
    CHECK(static_cast<double>(bytes) == most * n * sizeof(float));
  }
}

// Reducers that break one law each: the suite must say so.
namespace {

template <class Link, class Twist>
struct twisted {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  Twist twist;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return ring{link}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    ring{link}.mix(m, now, s);
    twist(link.rank(), link.size(), m.what.data, m.what.size, m.scratch);
  }
};
template <class Link, class Twist>
twisted(Link, Twist) -> twisted<Link, Twist>;

template <class Twist>
std::string broken(Twist twist) {
  return reducer_laws([twist](auto link) { return twisted{link, twist}; }, {.ranks = {3}});
}
bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("reducer_laws: what is broken is said") {
  CHECK(broken([](int, int, auto*, std::size_t, auto) {}) == "");
  CHECK(says(broken([](int, int p, auto* x, std::size_t n, auto) {
               for (std::size_t i = 0; i < n; ++i) x[i] *= static_cast<float>(p);
             }),
             "the mean of whole numbers is"));
  CHECK(says(broken([](int r, int, auto* x, std::size_t n, auto) {
               if (r == 2 && n == 997) x[996] *= 1.000001f;
             }),
             "rank 2 left with other bits than rank 0 (3 ranks, 997 numbers of 4 bytes)"));
  CHECK(says(broken([](int, int, auto* x, std::size_t n, auto) {
               for (std::size_t i = 0; i < n; ++i)
                 if (std::isnan(x[i])) x[i] = 0;
             }),
             "has a number that is none"));
  CHECK(says(broken([](int, int, auto* x, std::size_t n, auto) { x[n] = 1; }),
             "wrote outside of the message"));
  CHECK(says(broken([](int, int, auto*, std::size_t, auto scratch) {
               scratch.data[scratch.size] = std::byte{0};
             }),
             "wrote outside of the message"));
  CHECK(says(broken([](int r, int, auto*, std::size_t n, auto) {
               if (r == 1 && n == 997) throw std::runtime_error("out of order");
             }),
             "failed over 3 ranks: rank 1: out of order"));
}

TEST_CASE("reducer_laws: a wrong count is said") {
  const auto ring_of = [](auto link) { return ring{link}; };
  CHECK(says(reducer_laws(ring_of, {.ranks = {3}, .messages = [](int, int) { return 5u; }}),
             "sent 4 messages, not 5"));
  CHECK(says(reducer_laws(ring_of, {.ranks = {3}, .numbers = [](int, std::size_t) { return 1u; }}),
             "all ranks sent 16 bytes, not 4"));
}
