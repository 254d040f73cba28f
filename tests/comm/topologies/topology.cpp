// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concepts: a minimal topology, and that one with one member wrong, missing or
// added.
#include <array>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/topology.hpp>

#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

/// Minimal: each rank receives from the next one. For two ranks and more.
struct minimal {
  int period(int) const { return 1; }
  std::array<topologies::edge, 1> in_edges(int rank, int size, std::int64_t) const {
    return {topologies::edge{(rank + 1) % size, 0.25}};
  }
  const char* describe() const { return "minimal"; }
};

struct period_of_another_type : minimal {
  const char* period(int) const { return "one"; }
};
struct neighbors_without_weights : minimal {
  std::array<int, 1> in_edges(int, int, std::int64_t) const { return {0}; }
};
struct without_description {
  int period(int) const { return 1; }
  std::array<topologies::edge, 1> in_edges(int, int, std::int64_t) const { return {}; }
};
struct without_rounds : minimal {
  std::array<topologies::edge, 1> in_edges(int, int) const { return {}; }
};
struct not_constant : minimal {
  std::array<topologies::edge, 1> in_edges(int, int, std::int64_t) { return {}; }
};
struct not_copyable : minimal {
  not_copyable(const not_copyable&) = delete;
};
struct declared_symmetric : minimal {
  static constexpr bool symmetric = true;
};
struct declared_asymmetric : minimal {
  static constexpr bool symmetric = false;
};
struct with_dimensions : minimal {
  std::vector<int> dimensions(int size) const { return {size}; }
};
struct dimensions_of_another_type : minimal {
  int dimensions(int size) const { return size; }
};
struct declared_matching : minimal {
  static constexpr bool uniform_matching = true;
};
struct declared_no_matching : minimal {
  static constexpr bool uniform_matching = false;
};
struct declarations_alone {
  static constexpr bool symmetric = true, uniform_matching = true;
  std::vector<int> dimensions(int size) const { return {size}; }
};

}  // namespace

static_assert(Topology<minimal> && !Topology<int>);
static_assert(!Topology<period_of_another_type> && !Topology<neighbors_without_weights>);
static_assert(!Topology<without_description>);
static_assert(!Topology<without_rounds> && !Topology<not_constant> && !Topology<not_copyable>);
static_assert(!SymmetricTopology<minimal> && !TranslationInvariant<minimal> &&
              !UniformMatching<minimal>);
static_assert(SymmetricTopology<declared_symmetric> && !SymmetricTopology<declared_asymmetric>,
              "symmetric = false is no symmetry");
static_assert(UniformMatching<declared_matching> && !UniformMatching<declared_no_matching>);
static_assert(TranslationInvariant<with_dimensions> &&
              !TranslationInvariant<dimensions_of_another_type>);
static_assert(!SymmetricTopology<declarations_alone> && !UniformMatching<declarations_alone> &&
              !TranslationInvariant<declarations_alone>);

TEST_CASE("topology: the minimal model is a matrix whose diagonal is what its weights leave of 1") {
  CHECK(matrix_of(minimal{}, 3, 0) == matrix{{0.75, 0.25, 0}, {0, 0.75, 0.25}, {0.25, 0, 0.75}});
}
