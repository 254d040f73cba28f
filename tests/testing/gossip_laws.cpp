// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every graph of ours keeps them: tests/comm/gossip.cpp.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <cordee/testing/gossip_laws.hpp>

using namespace cordee;

namespace {

/// Hears the rank before it, in one way or another.
enum class flaw { none, drifts, greedy, itself, twice, outside, swaps };
struct flawed {
  flaw by = flaw::none;

  int period(int) const { return 1; }
  std::vector<edge> in(int rank, int size, std::int64_t) const {
    if (size != 3) throw error("three ranks only");
    const int before = (rank + 2) % 3;
    if (by == flaw::drifts) return {{rank == 0 ? 1 : 0, 0.5}};
    if (by == flaw::greedy) return {{before, 0.75}, {(rank + 1) % 3, 0.75}};
    if (by == flaw::itself) return {{rank, 0.5}};
    if (by == flaw::twice) return {{before, 0.25}, {before, 0.25}};
    if (by == flaw::outside) return {{rank + 1, 0.5}};
    return {{before, by == flaw::swaps ? 1 : 0.5}};
  }
};

/// Gossip, and then some.
enum class slip { none, in_a_weight, at_the_end, hastens, overruns, throws };
template <class Link>
struct slips {
  using link_type = Link;
  static constexpr agreement offers = agreement::mixing;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  flawed graph;
  slip by;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return gossip{link, graph}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    gossip{link, graph}.mix(m, now, s);
    Real* const x = m.what.data;
    const std::size_t n = m.what.size;
    if (by == slip::in_a_weight && link.rank() == 1 && n == 3) x[2] += Real(1e-6);
    if (by == slip::at_the_end && link.rank() == 2 && n == 997) x[996] += Real(1e-5);
    for (std::size_t i = 0; by == slip::hastens && n == 64 && i < n; ++i) x[i] *= Real(0.9);
    if (by == slip::overruns) x[n] = 1;
    if (by == slip::throws && link.rank() == 1) throw std::runtime_error("out of order");
  }
};
template <class Link>
slips(Link, flawed, slip) -> slips<Link>;

bool says(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}
const gossip_law_options three{.ranks = {1, 2, 3}, .decays = {3}};

std::string of(flaw by) { return gossip_laws(flawed{by}, three); }
std::string broken(slip by) {
  return gossip_laws(flawed{}, three, [by](auto link, const flawed& graph) {
    return slips{link, graph, by};
  });
}

}  // namespace

TEST_CASE("gossip_laws: a graph that declares no mean is said") {
  CHECK(of(flaw::none) == "");
  CHECK(says(of(flaw::drifts), "rank 0 gives others 0.5 and gets 1, so the mean drifts"));
  CHECK(says(of(flaw::greedy), "rank 0 gives others 1.5 in all"));
  CHECK(says(of(flaw::itself), "rank 0 hears rank 0"));
  CHECK(says(of(flaw::twice), "rank 0 hears rank 2 twice"));
  CHECK(says(of(flaw::outside), "rank 2 hears rank 3"));
  CHECK(says(of(flaw::swaps), "the ranks never agree (3 ranks)"));
  CHECK(says(gossip_laws(flawed{}, {.ranks = {2}}), "serves none"));
}

TEST_CASE("gossip_laws: a reducer that mixes otherwise is said") {
  CHECK(broken(slip::none) == "");
  CHECK(says(broken(slip::in_a_weight),
             "rank 1 gives rank 2 the weight 1e-06, not 0 (3 ranks), round 0"));
  CHECK(says(broken(slip::at_the_end), "at 996 of 997 numbers"));
  CHECK(says(broken(slip::hastens), "a round, not 0.5 (3 ranks)"));
  CHECK(says(broken(slip::overruns), "wrote outside"));
  CHECK(says(broken(slip::throws), "failed over 3 ranks: rank 1: out of order"));
}
