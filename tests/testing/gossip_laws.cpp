// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// That the library's topologies keep the laws is tested in tests/comm/reducers/gossip.cpp.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <cordee/testing/gossip_laws.hpp>

using namespace cordee;

namespace {

/// A ring of three in which each rank receives from the previous one, with a fault.
enum class topology_fault {
  none,
  mean_drifts,
  sum_above_one,
  self_edge,
  double_edge,
  no_such_rank,
  periodic,
  mean_drifts_late
};
struct faulty_topology {
  topology_fault fault = topology_fault::none;

  int period(int) const { return fault == topology_fault::mean_drifts_late ? 5 : 1; }
  std::vector<topologies::edge> in_edges(int rank, int size, std::int64_t round) const {
    if (size != 3) throw error("three ranks only");
    const int previous = (rank + 2) % 3;
    if (fault == topology_fault::mean_drifts ||
        (fault == topology_fault::mean_drifts_late && round % 5 == 3))
      return {{rank == 0 ? 1 : 0, 0.5}};
    if (fault == topology_fault::sum_above_one) return {{previous, 0.75}, {(rank + 1) % 3, 0.75}};
    if (fault == topology_fault::self_edge) return {{rank, 0.5}};
    if (fault == topology_fault::double_edge) return {{previous, 0.25}, {previous, 0.25}};
    if (fault == topology_fault::no_such_rank) return {{rank + 1, 0.5}};
    return {{previous, fault == topology_fault::periodic ? 1 : 0.5}};
  }
  const char* describe() const { return "faulty"; }
};

/// A directed ring that declares what it is not.
struct directed {
  int period(int) const { return 1; }
  std::vector<topologies::edge> in_edges(int rank, int size, std::int64_t) const {
    if (size == 1) return {};
    return {{(rank + 1) % size, 0.5}};
  }
  const char* describe() const { return "directed"; }
};
struct not_symmetric : directed {
  static constexpr bool symmetric = true;
};
struct no_matching : directed {
  static constexpr bool uniform_matching = true;
};
struct too_few_elements : directed {
  std::vector<int> dimensions(int size) const { return {size, 2}; }
};
struct other_grid : directed {
  std::vector<int> dimensions(int) const { return {2, 2}; }
};

/// Gossip, with a fault.
enum class mix_fault { none, one_weight, last_number, shrinks, overruns, throws };
template <class Communicator>
struct faulty_gossip {
  using communicator_type = Communicator;
  static constexpr agreement offers = agreement::mixing;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Communicator comm;
  faulty_topology topology;
  mix_fault fault;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return gossip{comm, topology}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info& info, typename D::stream s) const {
    gossip{comm, topology}.mix(m, info, s);
    Real* const x = m.values.data;
    const std::size_t n = m.values.size;
    if (fault == mix_fault::one_weight && comm.rank() == 1 && n == 3) x[2] += Real(1e-6);
    if (fault == mix_fault::last_number && comm.rank() == 2 && n == 997) x[996] += Real(1e-5);
    for (std::size_t i = 0; fault == mix_fault::shrinks && n == 64 && i < n; ++i) x[i] *= Real(0.9);
    if (fault == mix_fault::overruns) x[n] = 1;
    if (fault == mix_fault::throws && comm.rank() == 1)
      throw std::runtime_error("thrown by rank 1");
  }
};
template <class Communicator>
faulty_gossip(Communicator, faulty_topology, mix_fault) -> faulty_gossip<Communicator>;

bool contains(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}
const gossip_law_options three{.ranks = {1, 2, 3}, .decay_ranks = {3}};

std::string violations(topology_fault fault) { return gossip_laws(faulty_topology{fault}, three); }
std::string violations(mix_fault fault) {
  return gossip_laws(faulty_topology{}, three, [fault](auto comm, const faulty_topology& topology) {
    return faulty_gossip{comm, topology, fault};
  });
}

}  // namespace

TEST_CASE("gossip_laws: a topology that keeps no mean is reported") {
  CHECK(violations(topology_fault::none) == "");
  CHECK(contains(violations(topology_fault::mean_drifts),
                 "rank 0 gives others 0.5 and gets 1, so the mean drifts"));
  CHECK(contains(violations(topology_fault::mean_drifts_late), "(3 ranks), round 3"));
  CHECK(contains(violations(topology_fault::sum_above_one), "rank 0 gives others 1.5 in all"));
  CHECK(contains(violations(topology_fault::self_edge), "rank 0 receives from rank 0"));
  CHECK(contains(violations(topology_fault::double_edge), "rank 0 receives from rank 2 twice"));
  CHECK(contains(violations(topology_fault::no_such_rank), "rank 2 receives from rank 3"));
  CHECK(contains(violations(topology_fault::periodic), "the ranks never agree (3 ranks)"));
  CHECK(contains(gossip_laws(faulty_topology{}, {.ranks = {2}}), "serves none"));
}

TEST_CASE("gossip_laws: what a topology declares of itself and has not is reported") {
  CHECK(gossip_laws(directed{}, three) == "");
  CHECK(
      contains(gossip_laws(not_symmetric{}, three),
               "symmetric, but rank 0 gives rank 1 the weight 0.5 and gets 0 (3 ranks), round 0"));
  CHECK(contains(gossip_laws(no_matching{}, three),
                 "uniform_matching, but rank 0 gives rank 1 the weight 0.5 and itself 0.5"));
  CHECK(contains(gossip_laws(too_few_elements{}, three), "dimensions has 6 elements, not 3"));
  CHECK(contains(gossip_laws(other_grid{}, {.ranks = {4}, .decay_ranks = {}}),
                 "dimensions, but rank 1 gives rank 0 the weight 0, rank 0 gives rank 1 0.5"));
}

TEST_CASE("gossip_laws: a reducer that does not multiply by W is reported") {
  CHECK(violations(mix_fault::none) == "");
  CHECK(contains(violations(mix_fault::one_weight),
                 "rank 1 gives rank 2 the weight 1e-06, not 0 (3 ranks), round 0"));
  CHECK(contains(violations(mix_fault::last_number), "at 996 of 997 numbers"));
  CHECK(contains(violations(mix_fault::shrinks), "a round, not 0.5 (3 ranks)"));
  CHECK(contains(violations(mix_fault::overruns), "wrote outside"));
  CHECK(contains(violations(mix_fault::throws), "failed over 3 ranks: rank 1: thrown by rank 1"));
}
