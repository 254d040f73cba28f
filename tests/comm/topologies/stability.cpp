// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Golden values of docs/mathematics_ranks.md, 6: spectral gaps, spectral radii and limits.
#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/stability.hpp>
#include <cordee/comm/topologies/topologies.hpp>

#include "tests/support/ranks.hpp"
#include "tests/support/topologies.hpp"

using namespace cordee;
using namespace cordee::detail::comm;
using namespace support;

namespace {

constexpr momentum_form heavy{0.9, false}, nesterov{0.9, true};
constexpr int sizes[] = {4, 8, 16};

// The same topology without its symmetry, so that the map of all ranks is squared.
template <class T>
struct without_symmetry {
  T topology{};
  int period(int size) const { return topology.period(size); }
  auto in_edges(int rank, int size, std::int64_t round) const {
    return topology.in_edges(rank, size, round);
  }
  std::string describe() const { return topology.describe(); }
};

template <class Make>
void check_radii(const Make& make, std::array<double, 3> with_heavy,
                 std::array<double, 3> with_nesterov, double tolerance = 2e-9) {
  for (std::size_t k = 0; k < 3; ++k) {
    const stability s{make(sizes[k]), sizes[k]};
    CAPTURE(sizes[k]);
    CAPTURE(s.spectral_radius(heavy));
    CAPTURE(s.spectral_radius(nesterov));
    CHECK(std::abs(s.spectral_radius(heavy) - with_heavy[k]) < tolerance);
    CHECK(std::abs(s.spectral_radius(nesterov) - with_nesterov[k]) < tolerance);
  }
}
template <class Make>
void check_limits(const Make& make, std::array<double, 3> momentum, std::array<double, 3> theta) {
  for (std::size_t k = 0; k < 3; ++k) {
    const stability s{make(sizes[k]), sizes[k]};
    CAPTURE(sizes[k]);
    CAPTURE(s.largest_momentum({0, false}));
    CAPTURE(s.largest_theta(heavy));
    CHECK(std::abs(s.largest_momentum({0, false}) - momentum[k]) < 1e-6);
    CHECK(std::abs(s.largest_theta(heavy) - theta[k]) < 1e-6);
  }
}

struct unknown_randomness : topologies::random_matching {
  static constexpr bool uniform_matching = false;
};

constexpr std::array root_of_beta{0.948683298, 0.948683298, 0.948683298};
constexpr std::array ones{1.0, 1.0, 1.0};

}  // namespace

TEST_CASE("stability: spectral gaps of the topologies") {
  for (const auto& [p, gap] : {std::pair{2, 1.0},
                               {4, 2.0 / 3},
                               {5, 0.4606553371},
                               {8, 0.1952621459},
                               {16, 0.05074697833},
                               {32, 0.01280981306},
                               {64, 0.003210182219}})
    CHECK(std::abs(spectral_gap(topologies::ring{}, p) - gap) < 1e-10);
  for (const auto& [p, gap] : {std::pair{4, 2.0 / 3},
                               {6, 0.5},
                               {8, 0.5},
                               {12, 0.4},
                               {16, 0.4},
                               {64, 0.28571429},
                               {128, 0.25},
                               {5, 0.75},
                               {7, 0.64644661},
                               {31, 0.43773911}})
    CHECK(std::abs(spectral_gap(topologies::exponential{}, p) - gap) < 1e-8);
  for (const auto& [p, gap] : {std::pair{16, 0.13135938}, {64, 0.03229536}, {8, 0.14644661}})
    CHECK(std::abs(spectral_gap(topologies::mesh2d{}, p) - gap) < 1e-8);
  for (const int p : {3, 5, 8, 16}) {
    CHECK(std::abs(spectral_gap(topologies::star{}, p) - 1.0 / p) < 1e-8);
    CHECK(std::abs(spectral_gap(topologies::complete{}, p) - 1) < 1e-8);
  }
  for (const int d : {1, 2, 3, 4, 10})
    CHECK(std::abs(spectral_gap(topologies::hypercube{}, 1 << d) - 2.0 / (d + 1)) < 1e-12);
  for (const int side : {4, 6, 32})
    CHECK(std::abs(spectral_gap(topologies::torus2d{}, side * side) -
                   std::min(0.4, 0.4 * (1 - std::cos(2 * std::numbers::pi / side)))) < 1e-12);
  CHECK(std::abs(spectral_gap(topologies::one_peer{}, 8) - 1) < 1e-12);
  CHECK(std::abs(spectral_gap(topologies::ring{}, 1) - 1) < 1e-15);
}

TEST_CASE("stability: spectral radii of fixed topologies at momentum 0.9") {
  check_radii([](int) { return topologies::ring{}; }, root_of_beta,
              {0.949341763, 0.949341763, 0.949341763});
  check_radii([](int) { return topologies::symmetric_exponential{}; }, root_of_beta,
              {0.547722558, 0.670820393, 0.734846923});
  check_radii([](int) { return topologies::hypercube{}; }, root_of_beta,
              {0.949341763, 1.296964111, 1.5});
  // The first star's radius is the root of 0.9 x 3/4.
  check_radii([](int) { return topologies::star{}; }, root_of_beta,
              {0.821583836, 0.887411967, 0.918558654});
  check_radii([](int) { return topologies::exponential{}; },
              {1.155475391, 1.237497409, 1.252436614}, {0.840026134, 0.989891266, 1.022892000});
  check_radii([](int p) { return directed_ring(p); }, {1.356855160, 1.365967623, 1.388412482},
              {1.240732378, 1.338303966, 1.338303966});
}

TEST_CASE("stability: spectral radii of time-varying topologies at momentum 0.9") {
  check_radii([](int) { return topologies::one_peer{}; }, {1.079503621, 1.113510233, 1.196341348},
              {0.948683298, 1.195818781, 1.249691886});
  check_radii([](int) { return topologies::xor_matching{}; },
              {0.948683298, 1.052386860, 1.220063959}, {0.948683298, 1.195818781, 1.249691886});
  check_radii([](int) { return topologies::odd_even{}; }, root_of_beta, root_of_beta);
  check_radii([](int) { return topologies::random_matching{}; },
              {1.053988766, 1.080271425, 1.090143606}, {0.949738443, 1.022339703, 1.046969001});
  CHECK(std::abs(stability{topologies::lazy{topologies::xor_matching{}, 0.5}, 32}.spectral_radius(
                     heavy) -
                 1.082597) < 1e-6);
  for (const int p : {8, 16})
    CHECK(stability{topologies::lazy{topologies::xor_matching{}, 0.5}, p}.spectral_radius(heavy) <
          1);
}

TEST_CASE("stability: on two ranks random matchings are one fixed graph") {
  for (const momentum_form c : {momentum_form{}, heavy, nesterov})
    for (const double theta : {1.0, 0.5}) {
      const stability random{topologies::lazy{topologies::random_matching{}, theta}, 2},
          fixed{topologies::lazy{topologies::hypercube{}, theta}, 2};
      CHECK(std::abs(random.spectral_radius(c) - fixed.spectral_radius(c)) < 1e-7);
    }
  const stability pair{topologies::random_matching{}, 2};
  CHECK(pair.spectral_radius({}) == 0);
  CHECK(pair.spectral_radius(nesterov) == 0);
  CHECK(std::abs(pair.spectral_radius(heavy) - std::sqrt(0.9)) < 1e-15);
  CHECK(pair.spectral_gap() == 1);
}

TEST_CASE("stability: spectral radii of quasi-global momentum") {
  constexpr momentum_form quasi_global{0.9, false, true, 0.9};
  for (const auto& [p, radius] : {std::pair{4, 0.901166}, {8, 0.901490}, {16, 0.902059}})
    CHECK(std::abs(stability{topologies::exponential{}, p}.spectral_radius(quasi_global) - radius) <
          1e-6);
  for (const auto& [p, radius] : {std::pair{8, 1.006145}, {16, 1.053624}})
    CHECK(std::abs(stability{directed_ring(p), p}.spectral_radius(quasi_global) - radius) < 1e-6);
  CHECK(stability{directed_ring(8), 8}.largest_momentum(quasi_global) < 0.9);
  const momentum_form c{0.9, true, true, 0.8};
  CHECK(std::abs(stability{topologies::exponential{}, 8}.spectral_radius(c) -
                 stability{without_symmetry<topologies::exponential>{}, 8}.spectral_radius(c)) <
        1e-9);
}

TEST_CASE("stability: the largest stable momentum and theta") {
  check_limits([](int) { return topologies::ring{}; }, ones, ones);
  check_limits([](int) { return topologies::symmetric_exponential{}; }, ones, ones);
  check_limits([](int) { return topologies::hypercube{}; }, ones, ones);
  check_limits([](int) { return topologies::star{}; }, ones, ones);
  check_limits([](int) { return topologies::odd_even{}; }, ones, ones);
  check_limits([](int) { return topologies::exponential{}; }, {0.638080, 0.519816, 0.499316},
               {0.092432, 0.047091, 0.040311});
  check_limits([](int p) { return directed_ring(p); }, {0.355416, 0.247839, 0.226054},
               {0.020994, 0.012326, 0.010942});
  check_limits([](int) { return topologies::random_matching{}; }, {0.795334, 0.743722, 0.723970},
               {0.542857, 0.436066, 0.404255});
  const std::array one_peer_momentum{0.767828, 0.706175, 0.555453}, xors{1.0, 0.707107, 0.549134};
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(std::abs(stability{topologies::one_peer{}, sizes[k]}.largest_momentum({0, false}) -
                   one_peer_momentum[k]) < 1e-6);
    CHECK(std::abs(stability{topologies::xor_matching{}, sizes[k]}.largest_momentum({0, false}) -
                   xors[k]) < 1e-6);
  }
}

TEST_CASE("stability: characters and the squared map of all ranks give the same radius") {
  for (const int p : {2, 3, 5, 6, 8, 9, 12})
    for (const momentum_form c :
         {heavy, nesterov, momentum_form{0.3, false}, momentum_form{0, false}}) {
      const auto same = [&](const auto& topology) {
        CAPTURE(topology.describe());
        CAPTURE(p);
        CAPTURE(c.momentum);
        const double by_modes = stability{topology, p}.spectral_radius(c);
        const double squared =
            stability{without_symmetry<std::remove_cvref_t<decltype(topology)>>{topology}, p}
                .spectral_radius(c);
        // At a double root the error of the radius is the square root of a rounding error: half of
        // the digits.
        CHECK(std::abs(by_modes - squared) < 1e-7);
      };
      same(topologies::ring{});
      same(topologies::torus2d{});
      same(topologies::exponential{});
      same(topologies::symmetric_exponential{});
      same(topologies::lazy{topologies::exponential{}, 0.2});
      if (c.momentum > 0)
        same(topologies::one_peer{});  // without momentum its product is nilpotent
      if (p == 2 || p == 8) {
        same(topologies::hypercube{});
        same(topologies::lazy{topologies::xor_matching{}, 0.7});
      }
    }
}

TEST_CASE("stability: the spectral radius is the growth of the recurrence") {
  // All ranks' x and u by hand, 3000 rounds, one number each.
  for_each_topology([](const auto& topology, int ranks) {
    if (topology.period(ranks) == 0 || ranks < 2) return;
    for (const momentum_form c : {heavy, nesterov}) {
      CAPTURE(topology.describe());
      CAPTURE(ranks);
      CAPTURE(c.nesterov);
      const auto p = static_cast<std::size_t>(ranks);
      std::vector<double> x(p), u(p), d(p);
      for (std::size_t i = 0; i < p; ++i) x[i] = std::sin(1.0 + 3.7 * static_cast<double>(i * i));
      std::vector<matrix> rounds;
      for (int t = 0; t < topology.period(ranks); ++t)
        rounds.push_back(matrix_of(topology, ranks, t));
      double log_size = 0, early = 0;
      constexpr int steps = 3000, from = 1000;
      for (int t = 0; t < steps; ++t) {
        double mean = 0, momentum = 0, size = 0;
        for (std::size_t i = 0; i < p; ++i) {
          mean += x[i] / static_cast<double>(p);
          momentum += u[i] / static_cast<double>(p);
        }
        for (std::size_t i = 0; i < p; ++i) {
          x[i] -= mean;
          u[i] -= momentum;
          size += x[i] * x[i] + u[i] * u[i];
        }
        size = std::sqrt(size);
        log_size += std::log(size);
        for (std::size_t i = 0; i < p; ++i) {
          x[i] /= size;
          u[i] /= size;
        }
        if (t == from) early = log_size;
        const matrix& w = rounds[static_cast<std::size_t>(t) % rounds.size()];
        for (std::size_t i = 0; i < p; ++i) {
          d[i] = x[i];
          for (std::size_t j = 0; j < p; ++j) d[i] -= w[i][j] * x[j];
        }
        for (std::size_t i = 0; i < p; ++i) {
          u[i] = c.momentum * u[i] + d[i];
          x[i] -= c.nesterov ? d[i] + c.momentum * u[i] : u[i];
        }
      }
      // Two nearly equal roots beat: their ratio of sizes enters over 2000 rounds.
      const double grown = std::exp((log_size - early) / (steps - 1 - from));
      CAPTURE(grown);
      CHECK(close(grown, stability{topology, ranks}.spectral_radius(c), 4e-3));
    }
  });
}

TEST_CASE("stability: unknown radii are NaN, and a topology that never mixes has radius 1") {
  CHECK_FALSE(stability{topologies::mesh2d{}, 130}.is_known());
  CHECK(std::isnan(stability{topologies::mesh2d{}, 130}.spectral_radius(heavy)));
  CHECK(std::isnan(spectral_gap(topologies::mesh2d{}, 130)));
  CHECK_FALSE(stability{unknown_randomness{}, 4}.is_known());
  CHECK(stability{topologies::ring{}, 4096}.spectral_radius(heavy) < 1);
  CHECK(stability{topologies::mesh2d{}, 1}.spectral_radius(heavy) == 0);
  struct pairs {
    int period(int) const { return 1; }
    std::vector<topologies::edge> in_edges(int rank, int, std::int64_t) const {
      return {{rank ^ 1, 0.5}};
    }
    std::string describe() const { return "pairs"; }
  };
  CHECK(std::abs(stability{pairs{}, 4}.spectral_radius(heavy) - 1) < 1e-9);
  CHECK(stability{pairs{}, 4}.largest_theta(heavy) < 1e-5);
}

TEST_CASE("stability: a periodic topology has no spectral gap, and no stable momentum") {
  struct rotation {
    int period(int) const { return 1; }
    std::string describe() const { return "rotation"; }
    std::vector<topologies::edge> in_edges(int rank, int size, std::int64_t) const {
      return {{(rank + 1) % size, 1.0}};
    }
  };
  for (const int ranks : {2, 3, 5, 7, 10}) {
    CAPTURE(ranks);
    const double gap = spectral_gap(rotation{}, ranks);
    CHECK((gap >= 0 && gap < 1e-12));
    for (const bool nesterov : {false, true})
      CHECK(stability{rotation{}, ranks}.largest_momentum({0, nesterov}) == 0);
  }
}
